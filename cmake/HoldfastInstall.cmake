# cmake --install: programs, the lockers folder, pages, headers, and the two ways to find the library.

include(CMakePackageConfigHelpers)

get_property(tools GLOBAL PROPERTY HOLDFAST_TOOLS)
get_property(lockers GLOBAL PROPERTY HOLDFAST_LOCKERS)
get_property(layers GLOBAL PROPERTY HOLDFAST_LAYERS)
list(REMOVE_ITEM layers cli ssh event http claims wire server routes)  # of the programs, not of the library

# Links, relative, so that the tree can be moved.
install(CODE "
  set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  foreach(tool ${tools})
    file(CREATE_LINK holdfast \"\${root}/${CMAKE_INSTALL_BINDIR}/\${tool}\" SYMBOLIC)
  endforeach()
  foreach(script ${lockers})
    set(link \"\${root}/${CMAKE_INSTALL_LIBEXECDIR}/holdfast/lockers/\${script}\")
    get_filename_component(folder \"\${link}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    file(RELATIVE_PATH program \"\${folder}\" \"\${root}/${CMAKE_INSTALL_BINDIR}/holdfast\")
    file(CREATE_LINK \"\${program}\" \"\${link}\" SYMBOLIC)
  endforeach()
")

foreach(section 1 5 7 8)
  file(GLOB pages ${PROJECT_SOURCE_DIR}/man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

# The server's: systemd finds them there, the reader the rest.
install(FILES packaging/holdfastd.service DESTINATION lib/systemd/system)
install(FILES packaging/holdfastd.sysusers DESTINATION lib/sysusers.d RENAME holdfastd.conf)
install(FILES packaging/holdfastd.conf man/holdfastd.openapi.json DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/holdfast)

add_library(holdfast_all INTERFACE)
set_target_properties(holdfast_all PROPERTIES EXPORT_NAME holdfast)
target_link_libraries(holdfast_all INTERFACE holdfast_composite)
foreach(layer ${layers})
  install(DIRECTORY src/${layer} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/holdfast FILES_MATCHING PATTERN "*.h")
  install(TARGETS holdfast_${layer} EXPORT holdfast ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  list(PREPEND libraries -lholdfast_${layer})
endforeach()
install(TARGETS holdfast_all EXPORT holdfast)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
install(EXPORT holdfast NAMESPACE holdfast:: DESTINATION ${package_dir} FILE holdfastTargets.cmake)
configure_package_config_file(cmake/holdfastConfig.cmake.in ${PROJECT_BINARY_DIR}/holdfastConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/holdfastConfig.cmake ${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake
  DESTINATION ${package_dir})

list(JOIN libraries " " HOLDFAST_LIBS)
file(RELATIVE_PATH HOLDFAST_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # the prefix is chosen at install
configure_file(cmake/holdfast.pc.in ${PROJECT_BINARY_DIR}/holdfast.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
