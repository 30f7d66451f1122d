# tandem_source_revision(TARGET NAMESPACE FUNCTION FILES…): adds to TARGET a generated source that
# defines `const char* NAMESPACE::FUNCTION()`, a hash of the files' contents and of the compiler and
# its flags. It is a part of the numerics class: other sources or flags may give other bits.
if(CMAKE_SCRIPT_MODE_FILE)
  # Run by the build. Requires: FILES (|-list), FLAGS, NAMESPACE, FUNCTION, OUT.
  string(REPLACE "|" ";" files "${FILES}")
  set(all "${FLAGS}")
  foreach(file ${files})
    file(SHA256 ${file} hash)
    string(APPEND all " ${hash}")
  endforeach()
  string(SHA256 revision "${all}")
  string(SUBSTRING ${revision} 0 12 revision)
  file(WRITE ${OUT} "namespace ${NAMESPACE} {\nconst char* ${FUNCTION}();\n"
    "const char* ${FUNCTION}() { return \"${revision}\"; }\n}  // namespace ${NAMESPACE}\n")
  return()
endif()

set(TANDEM_SOURCE_REVISION_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(tandem_source_revision target namespace function)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  list(SORT ARGN)
  string(REPLACE ";" "|" files "${ARGN}")
  set(flags "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE}")
  string(APPEND flags " ${CMAKE_CXX_FLAGS} ${TANDEM_SANITIZE}")
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" "-DFLAGS=${flags}" "-DNAMESPACE=${namespace}"
            "-DFUNCTION=${function}" "-DOUT=${out}" -P ${TANDEM_SOURCE_REVISION_SCRIPT}
    DEPENDS ${ARGN} ${TANDEM_SOURCE_REVISION_SCRIPT} VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
