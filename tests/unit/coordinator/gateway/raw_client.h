#pragma once
// A client that sees every byte: a blocking loopback socket with just enough HTTP/1.1.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/gateway/json_reader.h"

namespace tandem::gateway {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;   // names in lower case
  std::string body;                             // chunked coding removed
  bool whole = false;                           // ended as HTTP says, not by a cut
};

// One connection. Every read gives up after 10 s.
class RawClient {
 public:
  // receive_buffer: bytes of the socket's buffer; 0 = the system's default.
  explicit RawClient(uint16_t port, int receive_buffer = 0);
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes);
  void post(const std::string& path, std::string_view body, const std::string& headers = {});
  void get(const std::string& path, const std::string& method = "GET");
  // The next response as a whole.
  RawResponse read_response(bool head_only = false);
  // Reads until the bytes received hold `text`; false when the connection ends first.
  bool read_until(std::string_view text);
  void close();

 private:
  bool read_more();

  int fd_ = -1;
  std::string received_;
};

// The payloads of the `data:` events of an event stream; fails the test on anything else.
std::vector<std::string> sse_events(const std::string& body);

// Parses strict JSON; fails the test when it is not.
Json strict_json(const std::string& text);

}  // namespace tandem::gateway
