#pragma once
// Fills one GgufFile from its map; lives on the stack of GgufFile::open(). Private to the module.

#include <cstdint>

#include "comm/runtime/result.h"
#include "model/format/byte_cursor.h"
#include "model/format/gguf_file.h"

namespace tandem::format {

class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), cursor_(file.map_.bytes()) {}
  Status parse();

 private:
  struct Counts {
    uint64_t num_tensors = 0;
    uint64_t num_keys = 0;
  };

  Result<Counts> parse_header();
  Status parse_key(uint64_t index);
  Status parse_value(MetadataValue::Parts& parts);
  Status parse_array(MetadataValue::Parts& parts);
  Status parse_tensor(uint64_t index);
  Status parse_dims(TensorInfo& tensor);
  Status size_tensor(TensorInfo& tensor, uint32_t type_id);
  Status read_alignment();
  Status place_tensors();
  Status check_overlaps() const;

  GgufFile& file_;
  ByteCursor cursor_;
};

}  // namespace tandem::format
