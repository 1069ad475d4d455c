# Headers, libraries and the package file for find_package(damacy). Not part of a Python wheel.
if(SKBUILD)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY DAMACY_LAYER_TARGETS)
install(TARGETS damacy damacy_options ${layers} EXPORT damacy-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${DAMACY_SRC} DESTINATION include FILES_MATCHING PATTERN "*.h" PATTERN "detail" EXCLUDE PATTERN "cuda" EXCLUDE)
install(EXPORT damacy-targets NAMESPACE damacy:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/damacy)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/damacy-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/damacy-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/damacy)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/damacy-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/damacy-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/damacy-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/damacy)
