# Installs the build in BUILD, builds the example of halo exchange with an MPI against it, and runs it on six ranks.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... [-DMPI=...] -P mpi_programs.cmake
# MPI is the folder of an MPI; without it, the MPI whose compiler is on PATH. Prints SKIPPED and the reason if there is none.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/commands.cmake)

if(MPI)
  if(NOT EXISTS ${MPI}/bin/mpicxx)
    message("SKIPPED: ${MPI} has no MPI; `make setup` installs it where there is a wheel")
    return()
  endif()
  set(which -DMPI_HOME=${MPI})
else()
  find_program(compiler mpicxx)
  if(NOT compiler)
    message("SKIPPED: no mpicxx is on PATH")
    return()
  endif()
endif()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/cpp -B ${WORK}/cpp -G Ninja -DCMAKE_BUILD_TYPE=Debug
  -DCMAKE_PREFIX_PATH=${WORK}/installed ${which})
run(${CMAKE_COMMAND} --build ${WORK}/cpp --target cubed_sphere)

file(STRINGS ${WORK}/cpp/CMakeCache.txt mpiexec REGEX "^MPIEXEC_EXECUTABLE:")
string(REGEX REPLACE "^[^=]*=" "" mpiexec "${mpiexec}")
run(mktemp -d /tmp/mpi.XXXXXX)
string(STRIP "${output}" temporary)
set(ENV{TMPDIR} ${temporary})
set(mpirun ${SOURCE}/tests/support/mpirun.sh ${mpiexec})
expect(0 "ranks are processes of MPI: .* equal to one thread" ${mpirun} 6 ${WORK}/cpp/cubed_sphere)
expect(1 "started with 2 ranks, expected 6" ${mpirun} 2 ${WORK}/cpp/cubed_sphere)
file(REMOVE_RECURSE ${WORK} ${temporary})
