# holdfast_cli11: the headers of CLI11 without <iostream>.
#
# CLI11 includes <iostream>, and with it comes a constructor that sets up eight streams and a locale in every run of every
# tool: 28 of 650 us, the shortest of 3,000 starts of fast_lock each, and 40 of 1,000 in the median. CLI11 needs those
# streams only for two default arguments and for warnings of options that are going out of use, and we use neither. So
# we compile with a copy of the headers that does not mention them. Where a version of CLI11 is written in another way, the
# copy is the original, and the tools start that much later.

get_target_property(hint CLI11::CLI11 INTERFACE_INCLUDE_DIRECTORIES)
find_path(HOLDFAST_CLI11_ORIGINAL CLI/CLI.hpp HINTS ${hint} REQUIRED)
set(copy ${PROJECT_BINARY_DIR}/cli11)
file(GLOB headers ${HOLDFAST_CLI11_ORIGINAL}/CLI/*.hpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
foreach(header ${headers})
  get_filename_component(name ${header} NAME)
  file(READ ${header} text)
  string(REPLACE "#include <iostream>" "#include <istream>\n#include <ostream>" text "${text}")
  string(REPLACE "std::ostream &out = std::cout" "std::ostream &out" text "${text}")
  string(REPLACE "std::ostream &err = std::cerr" "std::ostream &err" text "${text}")
  string(REPLACE "std::cout <<" "std::ostream(nullptr) <<" text "${text}")
  if(text MATCHES "std::(cout|cerr|cin)")  # somewhere else
    file(READ ${header} text)
  endif()
  # file(CONFIGURE) leaves a copy alone that is right already, so nothing is compiled again
  file(CONFIGURE OUTPUT ${copy}/CLI/${name} CONTENT "${text}" @ONLY)
endforeach()

add_library(holdfast_cli11 INTERFACE)
target_include_directories(holdfast_cli11 SYSTEM INTERFACE ${copy})
