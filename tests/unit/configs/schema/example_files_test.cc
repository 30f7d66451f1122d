// Every example in configs/ loads, and says on top what it is.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "configs/schema/loader.h"

namespace tandem::config {
namespace {

TEST(ExampleFiles, AllLoad) {
  const char* source = std::getenv("TANDEM_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(source) / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const Result<Config> config = load_config(entry.path().string(), {});
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->warnings.empty()) << entry.path();
    std::string first_line;
    std::getline(std::ifstream(entry.path()) >> std::ws, first_line);
    EXPECT_TRUE(first_line.starts_with("# ")) << entry.path();
  }
  EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace tandem::config
