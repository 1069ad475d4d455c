# Puts the licences of all components that are linked into a wheel into its dist-info, next to damacy's own, and a list of
# the components with versions (CycloneDX) into sboms/, where auditwheel adds its list of shared libraries. Licences are
# copied from the packages of the components. THIRD_PARTY.md describes each component. Knows where Debian, pip, zig and
# the CUDA toolkit keep licences.
if(NOT SKBUILD)
  return()
endif()
set(DAMACY_NOTICES third-party-licenses)

# damacy_notice(NAME GLOB...): the first file that a glob finds.
function(damacy_notice name)
  file(GLOB found ${ARGN})
  if(NOT found)
    message(WARNING "no licence of ${name} found at ${ARGN}: the wheel will not contain it")
    return()
  endif()
  list(GET found 0 licence)
  install(FILES ${licence} DESTINATION ${SKBUILD_METADATA_DIR}/${DAMACY_NOTICES} RENAME ${name}.txt)
endfunction()

set(DAMACY_COMPONENTS "")

# damacy_component(NAME VERSION LICENCE PURL): adds a line to the list of components.
macro(damacy_component name version licence purl)
  string(CONCAT line "    {\"type\": \"library\", \"name\": \"${name}\", \"version\": \"${version}\", "
    "\"licenses\": [{\"expression\": \"${licence}\"}], \"purl\": \"${purl}\"}")
  list(APPEND DAMACY_COMPONENTS "${line}")
endmacro()

set(packages libbz2-dev libfmt-dev libisal-dev liblz4-dev liblzma-dev libspdlog-dev libzstd-dev rapidjson-dev)
set(licences bzip2-1.0.6 MIT BSD-3-Clause BSD-2-Clause LicenseRef-public-domain MIT BSD-3-Clause MIT)
foreach(package licence IN ZIP_LISTS packages licences)
  damacy_notice(${package} /usr/share/doc/${package}/copyright)
  set(version unknown)
  execute_process(COMMAND dpkg-query -W -f "\${Version}" ${package} OUTPUT_VARIABLE version ERROR_QUIET)
  damacy_component(${package} "${version}" ${licence} "pkg:deb/debian/${package}@${version}")
endforeach()

if(DAMACY_PYTHON)
  damacy_notice(nanobind ${NB_DIR}/../nanobind-*.dist-info/licenses/LICENSE ${NB_DIR}/LICENSE)
  # nanobind's hash map is by other authors; its licence is at the top of the header.
  file(READ ${NB_DIR}/ext/robin_map/include/tsl/robin_map.h header)
  string(FIND "${header}" "*/" end)
  string(SUBSTRING "${header}" 0 ${end} licence)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/robin-map.txt "${licence}*/\n")
  damacy_notice(robin-map ${CMAKE_CURRENT_BINARY_DIR}/robin-map.txt)
  file(STRINGS ${NB_DIR}/include/nanobind/nanobind.h version REGEX "^#define NB_VERSION_(MAJOR|MINOR|PATCH) ")
  list(TRANSFORM version REPLACE "^#define NB_VERSION_[A-Z]+ +([0-9]+).*$" "\\1")
  string(JOIN "." version ${version})
  damacy_component(nanobind "${version}" BSD-3-Clause "pkg:pypi/nanobind@${version}")
  damacy_component(robin-map "of nanobind ${version}" MIT "pkg:github/Tessil/robin-map")
endif()
if(DAMACY_WITH_CUDA)
  cmake_path(GET CUDAToolkit_BIN_DIR PARENT_PATH toolkit)
  damacy_notice(cuda-runtime ${toolkit}/EULA.txt ${toolkit}/dist-info/nvidia_cuda_runtime-*/licenses/License.txt
    /usr/share/doc/cuda-cudart-*/copyright)
  set(version "${CUDAToolkit_VERSION}")
  if(EXISTS ${toolkit}/version.json)  # the runtime's version may differ from the compiler's
    file(READ ${toolkit}/version.json versions)
    string(JSON version ERROR_VARIABLE unknown GET "${versions}" cuda_cudart version)
    if(unknown)
      set(version "${CUDAToolkit_VERSION}")
    endif()
  endif()
  damacy_component(cuda-runtime "${version}" LicenseRef-NVIDIA-CUDA-EULA "pkg:generic/cuda-runtime@${version}")
endif()
if(DAMACY_ZIG)
  damacy_notice(libc++ ${DAMACY_ZIG}/lib/libcxx/LICENSE.TXT)
  damacy_component(libc++ "of zig ${DAMACY_ZIG_VERSION}" "Apache-2.0 WITH LLVM-exception" "pkg:pypi/ziglang@${DAMACY_ZIG_VERSION}")
endif()

string(JOIN ",\n" components ${DAMACY_COMPONENTS})
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/damacy.cdx.json
  "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n"
  "  \"metadata\": {\"component\": {\"type\": \"library\", \"name\": \"damacy\", \"version\": \"${PROJECT_VERSION}\"}},\n"
  "  \"components\": [\n${components}\n  ]\n}\n")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/damacy.cdx.json DESTINATION ${SKBUILD_METADATA_DIR}/sboms)
