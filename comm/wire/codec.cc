#include "comm/wire/codec.h"

#include "comm/wire/limits.h"

namespace tandem::wire {

std::string encode(const Envelope& envelope) {
  std::string bytes = envelope.SerializeAsString();
  CHECK_LE(bytes.size(), kMaxControlBytes);
  return bytes;
}

Result<Envelope> decode(std::string_view bytes) {
  if (bytes.size() > kMaxControlBytes) {
    return Error{ErrorCode::kCorrupt,
                 "control message of " + std::to_string(bytes.size()) + " bytes, limit " +
                     std::to_string(kMaxControlBytes),
                 "size"};
  }
  Envelope envelope;
  if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Error{ErrorCode::kCorrupt, "control message does not parse", "envelope"};
  }
  if (envelope.body_case() == Envelope::BODY_NOT_SET) {
    return Error{ErrorCode::kCorrupt, "control message without a known body", "body"};
  }
  return envelope;
}

const char* body_name(Envelope::BodyCase body) {
  switch (body) {
    case Envelope::kHello: return "hello";
    case Envelope::kWelcome: return "welcome";
    case Envelope::kHeartbeat: return "heartbeat";
    case Envelope::kReserve: return "reserve";
    case Envelope::kGranted: return "granted";
    case Envelope::kRefused: return "refused";
    case Envelope::kPrefill: return "prefill";
    case Envelope::kRegrant: return "regrant";
    case Envelope::kRegranted: return "regranted";
    case Envelope::kRetarget: return "retarget";
    case Envelope::kNoSource: return "no_source";
    case Envelope::kRenew: return "renew";
    case Envelope::kNack: return "nack";
    case Envelope::kTokens: return "tokens";
    case Envelope::kAck: return "ack";
    case Envelope::kResend: return "resend";
    case Envelope::kFinished: return "finished";
    case Envelope::kRelease: return "release";
    case Envelope::kCancel: return "cancel";
    case Envelope::kReleased: return "released";
    case Envelope::kPartFailed: return "part_failed";
    case Envelope::kDrain: return "drain";
    case Envelope::kResync: return "resync";
    case Envelope::BODY_NOT_SET: return "none";
  }
  return "unknown";
}

}  // namespace tandem::wire
