#include "worker/forward/numerics_class.h"

#include <xxhash.h>

#include <cstdio>

#include "worker/forward/rope_table.h"

namespace tandem::forward {

NumericsClass numerics_class(const ops::Backend& backend, const spec::ModelSpec& spec,
                             tensor::DType kv_dtype) {
  NumericsClass out;
  out.text = "backend=" + backend.numerics_revision() + "; forward=" TANDEM_FORWARD_REVISION +
             "; kv=" + tensor::dtype_name(kv_dtype) +
             "; tile=" + backend.capabilities().tile_format +
             "; weights=exact; activations=f32; rope=" + rope_table_hash(spec);
  const XXH128_hash_t hash = XXH3_128bits(out.text.data(), out.text.size());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  out.hash = text;
  return out;
}

}  // namespace tandem::forward
