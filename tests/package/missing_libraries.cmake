# Configures damacy where none of its libraries can be found: the error is one line that names all of them, and the command
# that installs them.
#   cmake -DSOURCE=... -DWORK=... -P missing_libraries.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/commands.cmake)

unset(ENV{CONDA_PREFIX})
set(only -DCMAKE_FIND_ROOT_PATH=${WORK}/empty)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
  list(APPEND only -DCMAKE_FIND_ROOT_PATH_MODE_${kind}=ONLY)
endforeach()
file(REMOVE_RECURSE ${WORK})
string(CONCAT line "\n *damacy needs libraries that were not found: zstd, lz4, ISA-L, liblzma, bzip2, RapidJSON, spdlog, "
  "headers of Python 3.11 or newer\\. "
  "Install them: [a-z-]+ install [^\n]*zstd[^\n]*lz4[^\n]*isa-?l[^\n]*bz[^\n]*rapidjson[^\n]*spdlog[^\n]*python[^\n]*\n")
expect(1 "${line}" ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G Ninja -DUSE_CUDA=OFF -DDAMACY_TESTS=OFF ${only})
file(REMOVE_RECURSE ${WORK})
