#pragma once
// The fields that would change what a request means and that this server can't honour: refused by
// name unless they hold the value that changes nothing. Fields that appear nowhere are ignored.

#include "coordinator/gateway/fields.h"

namespace tandem::gateway {

// Records the first unsupported field of a chat or completions body in `fields`.
void refuse_unsupported(Fields& fields);

}  // namespace tandem::gateway
