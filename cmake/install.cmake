# Headers, libraries and the package file for find_package(damacy). Not part of a Python wheel.
if(SKBUILD OR NOT DAMACY_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Sets `out` to the headers `from` and all headers below src/ that they include, directly or not.
function(damacy_reached_headers out from)
  set(reached "")
  set(open ${from})
  while(open)
    list(POP_FRONT open header)
    if(header IN_LIST reached)
      continue()
    endif()
    list(APPEND reached ${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${DAMACY_SRC}/../${header})
    file(STRINGS ${DAMACY_SRC}/../${header} lines REGEX "^#include \"damacy/")
    list(TRANSFORM lines REPLACE "^#include \"(.*)\".*" "\\1")
    list(APPEND open ${lines})
  endwhile()
  set(${out} ${reached} PARENT_SCOPE)
endfunction()

set(DAMACY_PUBLIC_HEADERS damacy/damacy.h damacy/array.h damacy/file.h damacy/remote.h damacy/halo.h damacy/c.h
  damacy/halo/mpi.h)  # which no other header includes: it needs MPI
damacy_reached_headers(headers "${DAMACY_PUBLIC_HEADERS}")
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${DAMACY_SRC}/../${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

set(DAMACY_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/damacy)
set(DAMACY_FIND_CUDA "")
if(DAMACY_WITH_CUDA)
  set(DAMACY_FIND_CUDA "find_dependency(CUDAToolkit)")
endif()
get_property(layers GLOBAL PROPERTY DAMACY_LAYER_TARGETS)
install(TARGETS damacy ${layers} EXPORT damacy-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT damacy-targets NAMESPACE damacy:: DESTINATION ${DAMACY_PACKAGE_DIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/damacy-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/damacy-config.cmake
  INSTALL_DESTINATION ${DAMACY_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/damacy-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/damacy-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/damacy-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/damacy-libraries.cmake DESTINATION ${DAMACY_PACKAGE_DIR})
