#pragma once
// CHECK: programmer errors. Always on; prints what failed and aborts the process.

namespace tandem {

// Prints "file:line: CHECK failed: what" to stderr and aborts. Thread-safe.
[[noreturn]] void check_failed(const char* file, int line, const char* what);

}  // namespace tandem

#define CHECK(condition)                                        \
  do {                                                          \
    if (!(condition)) [[unlikely]]                              \
      ::tandem::check_failed(__FILE__, __LINE__, #condition);   \
  } while (0)
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))
