# The words that the main CMakeLists.txt is written in.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Werror
                    -ffunction-sections -fdata-sections)

# Where ccache is installed, what another checkout has compiled is not compiled again. CCACHE_DISABLE=1 switches it off.
find_program(HOLDFAST_CCACHE ccache)
if(HOLDFAST_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${HOLDFAST_CCACHE})
endif()

set(HOLDFAST_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")
if(HOLDFAST_SANITIZE)
  # g++ 12 with sanitizers sees uninitialised members inside std::regex and std::function.
  add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
endif()

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS filesystem)
find_package(fmt 9 REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
include(HoldfastCli11)
find_package(libssh 0.10 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/reader.h REQUIRED)
find_package(SQLite3 3.40 REQUIRED)
find_package(PostgreSQL 13 REQUIRED)

include(GNUInstallDirs)

# holdfast_layer(NAME SOURCES file.cc... USES layer...): the library of src/NAME.
function(holdfast_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND src/${name}/)
  list(TRANSFORM ARG_USES PREPEND holdfast_)
  add_library(holdfast_${name} STATIC ${ARG_SOURCES})
  add_library(holdfast::${name} ALIAS holdfast_${name})
  set_target_properties(holdfast_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(holdfast_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/holdfast>)
  target_compile_features(holdfast_${name} PUBLIC cxx_std_20)
  target_link_libraries(holdfast_${name} PUBLIC ${ARG_USES})
  set_property(GLOBAL APPEND PROPERTY HOLDFAST_LAYERS ${name})
endfunction()

# holdfast_program(NAME SOURCES file.cc... TOOLS tool... NAMES tool... USES layer...): one program of tools/, with a link
# for each tool's name beside it; NAMES are tools that share the file of another. Static but for libc: starting it is most of what a lock costs.
function(holdfast_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TOOLS;NAMES;USES" ${ARGN})
  set(tool_sources ${ARG_TOOLS})
  list(TRANSFORM tool_sources APPEND .cc)
  set(sources ${ARG_SOURCES} ${tool_sources})
  list(TRANSFORM sources PREPEND tools/)
  list(TRANSFORM ARG_USES PREPEND holdfast_)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tools)
  target_link_libraries(${name} PRIVATE ${ARG_USES})
  if(NOT HOLDFAST_SANITIZE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--as-needed)
    target_link_libraries(${name} PRIVATE -l:libm.a)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  foreach(tool ${ARG_TOOLS} ${ARG_NAMES})
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink ${name} ${PROJECT_BINARY_DIR}/bin/${tool})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY HOLDFAST_TOOLS ${ARG_TOOLS} ${ARG_NAMES})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# holdfast_daemon(NAME SOURCES file.cc... USES layer...): a program of tools/ that is started once and stays.
function(holdfast_daemon name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND tools/)
  list(TRANSFORM ARG_USES PREPEND holdfast_)
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tools)
  target_link_libraries(${name} PRIVATE ${ARG_USES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR})
endfunction()

# holdfast_embed(LAYER FUNCTION FILE): the file becomes part of the layer, as a function that gives its bytes.
function(holdfast_embed layer function file)
  set(made ${PROJECT_BINARY_DIR}/embedded/${function}.cc)
  add_custom_command(OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${PROJECT_SOURCE_DIR}/${file} -DOUTPUT=${made} -DFUNCTION=${function}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${PROJECT_SOURCE_DIR}/${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  target_sources(holdfast_${layer} PRIVATE ${made})
endfunction()

# holdfast_lockers(script...): names of the shell package, as links to the program, in the build tree and installed.
function(holdfast_lockers)
  foreach(script ${ARGN})
    get_filename_component(folder ${PROJECT_BINARY_DIR}/libexec/holdfast/lockers/${script} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(RELATIVE_PATH program ${folder} ${PROJECT_BINARY_DIR}/bin/holdfast)
    file(CREATE_LINK ${program} ${PROJECT_BINARY_DIR}/libexec/holdfast/lockers/${script} SYMBOLIC)
  endforeach()
  set_property(GLOBAL PROPERTY HOLDFAST_LOCKERS ${ARGN})
endfunction()
