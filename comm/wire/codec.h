#pragma once
// Bytes <-> Envelope with bounded sizes. Pure functions, thread-safe.

#include <string>
#include <string_view>

#include "comm/runtime/result.h"
#include "comm/wire/control.pb.h"

namespace tandem::wire {

// Requires: the envelope is within kMaxControlBytes (checked).
std::string encode(const Envelope& envelope);

// kCorrupt for bytes that are no envelope, that have no body, or that are too long.
Result<Envelope> decode(std::string_view bytes);

// Lower-case name of the body ("granted"); "none" without one.
const char* body_name(Envelope::BodyCase body);

}  // namespace tandem::wire
