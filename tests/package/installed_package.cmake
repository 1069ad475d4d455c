# Installs the build in BUILD, moves the installation to another folder, and builds examples/cpp against it, with the
# compression libraries in yet another folder. Then configures a project that adds the source tree with
# add_subdirectory. Nothing of the package may name a path of this machine.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... [-DTOOLCHAIN=...] -P installed_package.cmake
# TOOLCHAIN is the file of a build for another machine; it names the emulator.
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/commands.cmake)

if(TOOLCHAIN)  # libraries are looked for in its root alone, unless another root is named
  include(${TOOLCHAIN})
  set(cross -DCMAKE_TOOLCHAIN_FILE=${TOOLCHAIN} -DCMAKE_FIND_ROOT_PATH=${WORK})
endif()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)

file(GLOB_RECURSE package ${WORK}/moved/*.cmake)
foreach(file IN LISTS package)
  file(STRINGS ${file} bad REGEX "[\";:>]/[a-z]+/")
  if(bad)
    message(FATAL_ERROR "${file} names a path of this machine: ${bad}")
  endif()
endforeach()

file(GLOB_RECURSE headers RELATIVE ${WORK}/moved/include ${WORK}/moved/include/*)
list(LENGTH headers count)
if(count LESS 10 OR count GREATER 45)
  message(FATAL_ERROR "${count} headers are installed, not 10 to 45: ${headers}")
endif()
# The headers that those of the list include, and they themselves.
function(reach name)
  set(found ${${name}})
  set(at 0)
  while(TRUE)  # the list grows while it is read
    list(LENGTH found count)
    if(at EQUAL count)
      break()
    endif()
    list(GET found ${at} header)
    math(EXPR at "${at} + 1")
    file(STRINGS ${WORK}/moved/include/${header} lines REGEX "^#include \"damacy/")
    list(TRANSFORM lines REPLACE "^#include \"(.*)\".*" "\\1")
    list(APPEND found ${lines})
    list(REMOVE_DUPLICATES found)
  endwhile()
  set(${name} ${found} PARENT_SCOPE)
endfunction()
set(reached damacy/damacy.h damacy/array.h damacy/file.h damacy/halo.h)
reach(reached)
list(LENGTH reached count)
if(count GREATER 34)
  message(FATAL_ERROR "batches, arrays, files and halo exchange reach ${count} headers, not at most 34: ${reached}")
endif()
list(APPEND reached damacy/remote.h damacy/c.h damacy/halo/mpi.h)
reach(reached)
foreach(header IN LISTS headers)
  if(NOT header IN_LIST reached)
    message(FATAL_ERROR "${header} is installed, but no public header reaches it")
  endif()
  if(header MATCHES "/detail/|/cuda/|_test\\.h$|pipeline/environment")
    message(FATAL_ERROR "${header} is private, but a public header reaches it")
  endif()
endforeach()

# The package looks for the libraries again: it finds those of the other folder.
file(STRINGS ${BUILD}/CMakeCache.txt libraries REGEX "^(ZSTD|LZ4|ISAL|LZMA|BZIP2)_LIBRARY:")
foreach(line IN LISTS libraries)
  string(REGEX REPLACE "^[^=]*=" "" library "${line}")
  get_filename_component(name "${library}" NAME)
  file(MAKE_DIRECTORY ${WORK}/elsewhere/lib)
  file(COPY_FILE "${library}" "${WORK}/elsewhere/lib/${name}")
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/cpp -B ${WORK}/example -G Ninja -DCMAKE_BUILD_TYPE=Debug ${cross}
  "-DCMAKE_PREFIX_PATH=${WORK}/moved\;${WORK}/elsewhere")
file(READ ${WORK}/example/build.ninja rules)
foreach(name IN ITEMS zstd lz4 isal lzma bz2)
  if(NOT rules MATCHES "${WORK}/elsewhere/lib/lib${name}")
    message(FATAL_ERROR "lib${name} of ${WORK}/elsewhere/lib is not linked")
  endif()
endforeach()
if(rules MATCHES "${SOURCE}/src" OR rules MATCHES "${BUILD}/lib")
  message(FATAL_ERROR "the example is built with files of the source or build folder")
endif()
run(${CMAKE_COMMAND} --build ${WORK}/example)
expect(1 "no zarr metadata" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example/stream_crops ${WORK}/no-such-array)
expect(1 "no zarr metadata" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example/read_selection ${WORK}/no-such-array)
file(WRITE ${WORK}/array/zarr.json [[{"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "uint8",
  "fill_value": 1, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
  "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]}]])
file(WRITE ${WORK}/array/c/0/0 "abcdef")  # the other chunks are missing
expect(0 "shape \\(2, 6\\), sum 303.0.*first 97.0, last 1.0" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example/read_selection ${WORK}/array)
expect(0 "2 batches of 4 crops" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example/stream_crops ${WORK}/array 2 2)
expect(0 "shape \\(4, 6\\), sum 615.0.*document of [0-9]+ bytes, begins with [{]" ${CMAKE_CROSSCOMPILING_EMULATOR}
  ${WORK}/example/read_remote store://local/array ${WORK})
expect(1 "no zarr metadata" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example/read_remote store://local/none ${WORK})
file(WRITE ${WORK}/three-bytes.txt "abc")
expect(0 "3 bytes to [^,]*, checksum e71fa2190541574b" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example/file_to_gpu
  ${WORK}/three-bytes.txt)
if(EXISTS ${BUILD}/libdamacy_fake_cuda.so)  # a build with CUDA: on a GPU the program makes its context itself
  expect(0 "3 bytes to cuda:0 Fake GPU, checksum e71fa2190541574b" ${CMAKE_COMMAND} -E env
    DAMACY_LIBCUDA=${BUILD}/libdamacy_fake_cuda.so ${WORK}/example/file_to_gpu ${WORK}/three-bytes.txt)
endif()
expect(0 "ranks are threads: .* equal to one thread" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example/cubed_sphere)

run(${CMAKE_COMMAND} -S ${SOURCE}/examples/c -B ${WORK}/example-c -G Ninja -DCMAKE_BUILD_TYPE=Debug ${cross}
  "-DCMAKE_PREFIX_PATH=${WORK}/moved\;${WORK}/elsewhere" "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -pedantic")
run(${CMAKE_COMMAND} --build ${WORK}/example-c)
expect(0 "2 batches of 4 crops, sum 1805.0" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example-c/stream_crops ${WORK}/array 2 2)
expect(1 "no zarr metadata" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/example-c/stream_crops ${WORK}/no-such-array)
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/c -B ${WORK}/c -G Ninja -DCMAKE_BUILD_TYPE=Debug ${cross}
  "-DCMAKE_PREFIX_PATH=${WORK}/moved\;${WORK}/elsewhere")
run(${CMAKE_COMMAND} --build ${WORK}/c)
file(MAKE_DIRECTORY ${WORK}/c/files)
expect(0 "the C interface works" ${CMAKE_CROSSCOMPILING_EMULATOR} ${WORK}/c/c_interface ${WORK}/c/files)
if(EXISTS ${WORK}/c/fortran_halo)  # only where there is a Fortran compiler
  expect(0 "halo exchange from Fortran works" ${WORK}/c/fortran_halo)
endif()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/subproject -B ${WORK}/subproject -G Ninja -DUSE_CUDA=OFF ${cross}
  -DDAMACY_SOURCE=${SOURCE})
run(${CMAKE_COMMAND} --build ${WORK}/subproject --target help)
if(NOT output MATCHES "damacy_pipeline" OR output MATCHES "_tests|_native")
  message(FATAL_ERROR "a subproject has other targets than the libraries: ${output}")
endif()
file(REMOVE_RECURSE ${WORK})
