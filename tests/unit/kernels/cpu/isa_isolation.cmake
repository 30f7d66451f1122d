# Requires: NM, ARCHIVE. Fails if an avx* object of the archive has a weak or unique definition.
execute_process(COMMAND ${NM} --print-file-name --defined-only ${ARCHIVE}
  OUTPUT_VARIABLE symbols RESULT_VARIABLE result)
string(REGEX MATCHALL "[^\n]*:avx[0-9a-z]+_[^\n]*" lines "${symbols}")
list(LENGTH lines count)
if(NOT result EQUAL 0 OR count EQUAL 0)
  message(FATAL_ERROR "no instruction-set objects found in ${ARCHIVE}")
endif()
foreach(line ${lines})
  if(line MATCHES " [WVu] ")
    message(FATAL_ERROR "shared symbol in an object with instruction-set flags: ${line}")
  endif()
endforeach()
message(STATUS "${count} symbols, none shared")
