# `cmake --install` gives bin/nibble, the static libraries, the headers, and a package: find_package(nibble) -> nibble::core …
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY NIBBLE_LIBRARIES)
foreach(library IN LISTS libraries)
  target_include_directories(${library} PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/nibble>)
endforeach()
install(TARGETS ${libraries} nibble_cli EXPORT nibbleTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nibble)
add_custom_target(package_files DEPENDS ${libraries} nibble_cli)  # what `cmake --install` wants, without tests
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nibble)
install(EXPORT nibbleTargets NAMESPACE nibble:: DESTINATION ${package_dir})
configure_package_config_file(cmake/nibbleConfig.cmake.in ${PROJECT_BINARY_DIR}/nibbleConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nibbleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/nibbleConfig.cmake ${PROJECT_BINARY_DIR}/nibbleConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/dependencies.cmake DESTINATION ${package_dir})
