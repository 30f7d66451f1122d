#pragma once
// Fault points: every message type x {sender dies before | after sending, receiver dies before |
// after handling}. A seed may carry one target; the list comes from the wire.

#include <compare>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/wire/codec.h"

namespace tandem::sim {

enum class Point { kBeforeSend, kAfterSend, kBeforeHandle, kAfterHandle };
inline constexpr Point kPoints[] = {Point::kBeforeSend, Point::kAfterSend, Point::kBeforeHandle,
                                    Point::kAfterHandle};

struct FaultPoint {
  std::string message;
  Point point = Point::kBeforeSend;
  auto operator<=>(const FaultPoint&) const = default;
};

inline const char* point_name(Point point) {
  switch (point) {
    case Point::kBeforeSend: return "sender dies before sending";
    case Point::kAfterSend: return "sender dies after sending";
    case Point::kBeforeHandle: return "receiver dies before handling";
    case Point::kAfterHandle: return "receiver dies after handling";
  }
  return "";
}

// Control messages from the envelope's oneof, link messages from the link's vocabulary.
inline std::vector<std::string> message_names() {
  std::vector<std::string> names;
  for (int number = 1; number < 100; ++number) {
    const std::string name =
        wire::body_name(static_cast<wire::Envelope::BodyCase>(number));
    if (name != "unknown" && name != "none") names.push_back(name);
  }
  for (const char* name : {"link_push", "link_commit", "link_committed"}) names.push_back(name);
  return names;
}

inline std::vector<FaultPoint> all_fault_points() {
  std::vector<FaultPoint> points;
  for (const std::string& name : message_names()) {
    for (Point point : kPoints) points.push_back({name, point});
  }
  return points;
}

}  // namespace tandem::sim
