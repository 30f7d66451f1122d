# tandem_module(): one static library per second-level folder, with an enforced dependency direction.
#
# Three checks make an undeclared dependency fail the build:
#   1. the arrows of TandemArrows.cmake, at configure time;
#   2. every file is compiled against a view that holds only the headers of the module and of what
#      it declares, and every #include is checked against the *direct* declarations;
#   3. every module is linked whole against nothing but its declared dependencies.
include(TandemArrows)

# Modules whose tests compute a lot: optimised in sanitizer builds too.
set(TANDEM_HOT_MODULES "^(kernels/|model/tokenizer|worker/(forward|sampling|weights))")

function(tandem_target_name module out)
  string(REPLACE "/" "_" name ${module})
  set(${out} tandem_${name} PARENT_SCOPE)
endfunction()

# Makes view/MODULE/<path>/header.h -> source tree for every header of the module.
function(tandem_make_view module view)
  file(REMOVE_RECURSE ${view})
  foreach(header ${ARGN})
    get_filename_component(folder ${view}/${module}/${header} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${module}/${header})
      message(FATAL_ERROR "${module}: HDRS names ${header}, which does not exist")
    endif()
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${module}/${header} ${view}/${module}/${header} SYMBOLIC)
  endforeach()
endfunction()

# tandem_module(comm/wire SRCS a.cc HDRS a.h PRIVATE_HDRS b.h DEPS comm/runtime EXTERNAL protobuf
#               PROTOS control.proto)
# DEPS are modules (second-level folders), EXTERNAL are names of TandemDependencies.cmake.
# HDRS are seen by dependents, PRIVATE_HDRS only by the module itself.
function(tandem_module module)
  cmake_parse_arguments(M "" "" "SRCS;HDRS;PRIVATE_HDRS;DEPS;EXTERNAL;PROTOS" ${ARGN})
  if(M_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${module}: unknown arguments ${M_UNPARSED_ARGUMENTS}")
  endif()
  tandem_target_name(${module} target)
  foreach(dep ${M_DEPS})
    tandem_check_arrow(${module} ${dep})
  endforeach()

  set(view ${CMAKE_BINARY_DIR}/view/${target})
  set(private_view ${CMAKE_BINARY_DIR}/view_private/${target})
  tandem_make_view(${module} ${view} ${M_HDRS})
  tandem_make_view(${module} ${private_view} ${M_PRIVATE_HDRS})

  set(sources ${M_SRCS})
  foreach(proto ${M_PROTOS})
    get_filename_component(stem ${proto} NAME_WE)
    set(generated ${view}/${module}/${stem}.pb)
    add_custom_command(OUTPUT ${generated}.cc ${generated}.h
      COMMAND ${TANDEM_PROTOC} -I${CMAKE_SOURCE_DIR} --cpp_out=${view}
              ${CMAKE_SOURCE_DIR}/${module}/${proto}
      DEPENDS ${CMAKE_SOURCE_DIR}/${module}/${proto} VERBATIM)
    list(APPEND sources ${generated}.cc)
    list(APPEND generated_files ${generated}.h)
    set_source_files_properties(${generated}.cc PROPERTIES COMPILE_OPTIONS "-w")
  endforeach()

  set(kind STATIC)
  set(scope PUBLIC)
  if(NOT sources)
    set(kind INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(${target} ${kind} ${sources})
  target_include_directories(${target} ${scope} ${view})
  if(sources)
    target_include_directories(${target} PRIVATE ${private_view})
    target_link_libraries(${target} PRIVATE tandem_options)
  endif()
  if(sources AND TANDEM_SANITIZE AND module MATCHES ${TANDEM_HOT_MODULES})
    # Unoptimised code compiles in half the time; these few would take minutes to run.
    target_compile_options(${target} PRIVATE -O1)
  endif()
  foreach(dep ${M_DEPS})
    tandem_target_name(${dep} dep_target)
    target_link_libraries(${target} ${scope} ${dep_target})
  endforeach()
  foreach(ext ${M_EXTERNAL})
    target_link_libraries(${target} ${scope} ext_${ext})
  endforeach()

  set_property(GLOBAL APPEND PROPERTY TANDEM_MODULES ${module})
  set_property(GLOBAL PROPERTY TANDEM_DEPS_${target} ${M_DEPS})
  set_property(GLOBAL PROPERTY TANDEM_EXTERNAL_${target} ${M_EXTERNAL})
  set_property(GLOBAL PROPERTY TANDEM_HAS_SRCS_${target} "${sources}")

  # Check 2: direct includes.
  set(stamp ${CMAKE_BINARY_DIR}/checks/${target}.includes)
  set(files)
  foreach(file ${M_SRCS} ${M_HDRS} ${M_PRIVATE_HDRS})
    list(APPEND files ${CMAKE_SOURCE_DIR}/${module}/${file})
  endforeach()
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} "-DMODULE=${module}" "-DDEPS=${M_DEPS}" "-DFILES=${files}"
            "-DSTAMP=${stamp}" -P ${CMAKE_SOURCE_DIR}/cmake/check_includes.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/check_includes.cmake
            ${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt VERBATIM)
  add_custom_target(${target}_includes DEPENDS ${stamp})
  add_dependencies(${target} ${target}_includes)
endfunction()

# Check 3, once every module is known.
function(tandem_finish_modules)
  get_property(modules GLOBAL PROPERTY TANDEM_MODULES)
  file(WRITE ${CMAKE_BINARY_DIR}/checks/empty_main.cc "int main() { return 0; }\n")
  add_custom_target(check_modules ALL)
  foreach(module ${modules})
    tandem_target_name(${module} target)
    get_property(has_sources GLOBAL PROPERTY TANDEM_HAS_SRCS_${target})
    if(NOT has_sources)
      continue()
    endif()
    add_executable(${target}_whole EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/checks/empty_main.cc)
    set_target_properties(${target}_whole PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/checks)
    target_link_libraries(${target}_whole PRIVATE tandem_options
      -Wl,--whole-archive $<TARGET_FILE:${target}> -Wl,--no-whole-archive ${target})
    add_dependencies(${target}_whole ${target})
    add_dependencies(check_modules ${target}_whole)
  endforeach()
endfunction()

# tandem_program(NAME SRCS … DEPS … EXTERNAL …): an executable under bin/.
function(tandem_program name)
  cmake_parse_arguments(P "" "" "SRCS;DEPS;EXTERNAL" ${ARGN})
  add_executable(${name} ${P_SRCS})
  target_link_libraries(${name} PRIVATE tandem_options)
  foreach(dep ${P_DEPS})
    tandem_target_name(${dep} dep_target)
    target_link_libraries(${name} PRIVATE ${dep_target})
  endforeach()
  foreach(ext ${P_EXTERNAL})
    target_link_libraries(${name} PRIVATE ext_${ext})
  endforeach()
endfunction()

# Adds targets to what `ninja LABEL_tests` builds, for each label.
function(tandem_label_targets labels)
  foreach(label ${labels})
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    add_dependencies(${label}_tests ${ARGN})
  endforeach()
endfunction()

# tandem_test(NAME SRCS … DEPS … EXTERNAL … LABELS unit [TIMEOUT s]): a GoogleTest program.
# TANDEM_SOURCE_DIR and TANDEM_BINARY_DIR reach the tests as environment variables.
function(tandem_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SRCS;DEPS;EXTERNAL;LABELS;ARGS" ${ARGN})
  tandem_program(${name} SRCS ${T_SRCS} DEPS ${T_DEPS} EXTERNAL ${T_EXTERNAL})
  target_link_libraries(${name} PRIVATE GTest::gmock_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "TANDEM_SOURCE_DIR=${CMAKE_SOURCE_DIR};TANDEM_BINARY_DIR=${CMAKE_BINARY_DIR}")
  tandem_label_targets("${T_LABELS}" ${name})
endfunction()

# The interpreter of tests written in Python; tests/run.sh gives one with their packages.
set(TANDEM_PYTHON python3 CACHE STRING "Python interpreter of the tests")

# tandem_python_test(NAME script.py LABELS e2e NEEDS targets… [TIMEOUT s]): a script that exits
# with 0 when it passes. NEEDS are the programs it runs.
function(tandem_python_test name script)
  cmake_parse_arguments(T "" "TIMEOUT" "LABELS;NEEDS" ${ARGN})
  add_test(NAME ${name} COMMAND ${TANDEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${script})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "TANDEM_SOURCE_DIR=${CMAKE_SOURCE_DIR};TANDEM_BINARY_DIR=${CMAKE_BINARY_DIR}")
  if(T_NEEDS)
    tandem_label_targets("${T_LABELS}" ${T_NEEDS})
  endif()
endfunction()
