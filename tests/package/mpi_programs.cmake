# Installs the build in BUILD, builds an example of halo exchange with an MPI against it, and runs it on six ranks.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DLANGUAGE=cpp|fortran [-DMPI=...] -P mpi_programs.cmake
# MPI is the folder of an MPI; without it, the MPI whose compiler is on PATH. Prints SKIPPED and the reason if there is none.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/commands.cmake)

set(compilers_cpp mpicxx)
set(compilers_fortran mpifort gfortran)
if(MPI)
  if(NOT EXISTS ${MPI}/bin/mpicxx)
    message("SKIPPED: ${MPI} has no MPI; `make setup` installs it where there is a wheel")
    return()
  endif()
  set(which -DMPI_HOME=${MPI})
else()
  foreach(compiler IN LISTS compilers_${LANGUAGE})
    find_program(found_${compiler} ${compiler})
    if(NOT found_${compiler})
      message("SKIPPED: no ${compiler} is on PATH")
      return()
    endif()
  endforeach()
endif()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/${LANGUAGE} -B ${WORK}/example -G Ninja -DCMAKE_BUILD_TYPE=Debug
  -DCMAKE_PREFIX_PATH=${WORK}/installed ${which})
run(${CMAKE_COMMAND} --build ${WORK}/example --target cubed_sphere)

file(STRINGS ${WORK}/example/CMakeCache.txt mpiexec REGEX "^MPIEXEC_EXECUTABLE:")
string(REGEX REPLACE "^[^=]*=" "" mpiexec "${mpiexec}")
run(mktemp -d /tmp/mpi.XXXXXX)
string(STRIP "${output}" temporary)
set(ENV{TMPDIR} ${temporary})
set(mpirun ${SOURCE}/tests/support/mpirun.sh ${mpiexec})
expect(0 "ranks are processes of MPI: [^N]*equal to one" ${mpirun} 6 ${WORK}/example/cubed_sphere)
expect(1 "expected 6" ${mpirun} 2 ${WORK}/example/cubed_sphere)
file(REMOVE_RECURSE ${WORK} ${temporary})
