# Compiler settings that hold for every target.
set(TANDEM_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")

find_program(TANDEM_CCACHE ccache)
if(TANDEM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TANDEM_CCACHE})
endif()

add_library(tandem_options INTERFACE)
# Products and sums are never fused unless a kernel asks for it: the bits of a result must not
# depend on the optimiser. -fno-math-errno only drops errno.
target_compile_options(tandem_options INTERFACE
  -Wall -Wextra -Wshadow -Werror -ffp-contract=off -fno-math-errno -pthread)
# g++ 12 reports "text" + std::string(...) as overlapping copies (its bug 105651).
target_compile_options(tandem_options INTERFACE -Wno-restrict)
target_link_options(tandem_options INTERFACE -pthread)
if(TANDEM_SANITIZE)
  target_compile_options(tandem_options INTERFACE
    -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
  # g++ 12 reports false maybe-uninitialized and array-bounds findings under instrumentation.
  target_compile_options(tandem_options INTERFACE -Wno-maybe-uninitialized -Wno-array-bounds)
  if(TANDEM_SANITIZE STREQUAL "thread")
    # It doesn't follow fences, and Asio's headers have some beside their locks.
    target_compile_options(tandem_options INTERFACE -Wno-tsan)
  endif()
endif()
# Symbols stay usable in a debugger without the cost of full debug information.
target_compile_options(tandem_options INTERFACE $<$<CONFIG:Release>:-g1>)
