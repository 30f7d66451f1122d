#include "comm/http/message.h"

#include <algorithm>
#include <cctype>

namespace tandem::http {
namespace {

bool same_without_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// Bytes beyond ASCII are kept: the caller's messages are UTF-8.
std::string json_string(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const Header& header : headers) {
    if (same_without_case(header.name, name)) return header.value;
  }
  return {};
}

const char* status_text(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
  }
}

HttpResponse make_response(int status, std::string content_type, std::string body) {
  return {.status = status,
          .headers = {{"Content-Type", std::move(content_type)}},
          .body = std::move(body)};
}

HttpResponse make_error(int status, std::string_view message) {
  const char* type = status >= 500 ? "server_error" : "invalid_request_error";
  return make_response(status, "application/json",
                       "{\"error\":{\"message\":" + json_string(message) + ",\"type\":\"" + type +
                           "\",\"param\":null,\"code\":null}}");
}

HttpResponse make_method_not_allowed(const std::string& allow) {
  HttpResponse response = make_error(405, "method not allowed here; use " + allow);
  response.headers.push_back({"Allow", allow});
  return response;
}

}  // namespace tandem::http
