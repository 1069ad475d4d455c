# Commands of tests in CMake: they must succeed, or end as expected.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# What a program prints before it ends with `wanted`.
function(expect wanted pattern)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL wanted OR NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "${ARGN}: ended with ${result}, printed ${output}; expected ${wanted} and ${pattern}")
  endif()
  string(STRIP "${output}" output)
  message(STATUS "${output}")
endfunction()
