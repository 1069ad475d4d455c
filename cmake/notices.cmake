# The licences of what is linked into a wheel, taken from the packages it was linked from, beside our own in its
# dist-info. THIRD_PARTY.md says what each is. Knows where Debian, pip and the CUDA toolkit keep them.
if(NOT SKBUILD)
  return()
endif()
set(DAMACY_NOTICES third-party-licenses)

# damacy_notice(NAME GLOB...): the first file that a glob finds.
function(damacy_notice name)
  file(GLOB found ${ARGN})
  if(NOT found)
    message(WARNING "no licence of ${name} at ${ARGN}: the wheel will be without it")
    return()
  endif()
  list(GET found 0 licence)
  install(FILES ${licence} DESTINATION ${SKBUILD_METADATA_DIR}/${DAMACY_NOTICES} RENAME ${name}.txt)
endfunction()

foreach(package IN ITEMS libfmt-dev libisal-dev liblz4-dev libspdlog-dev libzstd-dev rapidjson-dev)
  damacy_notice(${package} /usr/share/doc/${package}/copyright)
endforeach()

if(DAMACY_PYTHON)
  damacy_notice(nanobind ${NB_DIR}/../nanobind-*.dist-info/licenses/LICENSE ${NB_DIR}/LICENSE)
  # Its hash map, by other authors, has its licence at the top of the header.
  file(READ ${NB_DIR}/ext/robin_map/include/tsl/robin_map.h header)
  string(FIND "${header}" "*/" end)
  string(SUBSTRING "${header}" 0 ${end} licence)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/robin-map.txt "${licence}*/\n")
  damacy_notice(robin-map ${CMAKE_CURRENT_BINARY_DIR}/robin-map.txt)
endif()
if(DAMACY_WITH_CUDA)
  cmake_path(GET CUDAToolkit_BIN_DIR PARENT_PATH toolkit)
  damacy_notice(cuda-runtime ${toolkit}/EULA.txt ${toolkit}/dist-info/nvidia_cuda_runtime-*/licenses/License.txt
    /usr/share/doc/cuda-cudart-*/copyright)
endif()
