// libcurl, loaded when it is first used: a program that names no remote uri never loads it. The declarations are our
// own, and are checked against curl's header where it is installed. Knows functions and numbers; not HTTP.
#pragma once

#include <string>
#include <string_view>

namespace damacy::http {

// The numbers of <curl/curl.h> that are used; all are part of its stable binary interface.
namespace curl_option {
inline constexpr int write_data = 10001, url = 10002, proxy = 10004, error_buffer = 10010, range = 10007,
                     post_fields = 10015, open_socket_data = 10164, close_socket_data = 10209, ca_directory = 10097,
                     user_agent = 10018, http_header = 10023, header_data = 10029, private_data = 10103,
                     custom_request = 10036, ca_file = 10065, low_speed_limit = 19, low_speed_time = 20,
                     ssl_version = 32, no_progress = 43, no_body = 44, netrc = 51, follow = 52, post_field_size = 60,
                     http_version = 84, buffer_size = 98, no_signal = 99, timeout_ms = 155, connect_timeout_ms = 156,
                     content_decoding = 158, protocols = 181, keep_alive = 213, suppress_connect_headers = 265,
                     shuffle_addresses = 275, http09 = 285, idle_connection_s = 288, quick_exit = 322,
                     write_function = 20011, header_function = 20079, open_socket_function = 20163,
                     close_socket_function = 20208;
}  // namespace curl_option
namespace curl_multi_option {
inline constexpr int max_connections_kept = 6, socket_data = 10002, timer_data = 10005, socket_function = 20001,
                     timer_function = 20004;
}  // namespace curl_multi_option
inline constexpr int kInfoPrivate = 0x100000 + 21;                     // CURLINFO_PRIVATE
inline constexpr int kMessageDone = 1;                                 // CURLMSG_DONE
inline constexpr int kPollIn = 1, kPollOut = 2, kPollRemove = 4;       // CURL_POLL_...
inline constexpr int kSelectIn = 1, kSelectOut = 2, kSelectError = 4;  // CURL_CSELECT_...
inline constexpr int kSocketTimeout = -1;                              // CURL_SOCKET_TIMEOUT
inline constexpr int kHttpAndHttps = 1 << 0 | 1 << 1;                  // CURLPROTO_…
inline constexpr int kTls12 = 6;                                       // CURL_SSLVERSION_TLSv1_2
inline constexpr int kHttp11 = 2;                                      // CURL_HTTP_VERSION_1_1
inline constexpr int kErrorBytes = 256;                                // CURL_ERROR_SIZE

namespace curl_info {
inline constexpr int primary_address = 0x100000 + 32;
inline constexpr int os_errno = 0x200000 + 25, connections = 0x200000 + 26, name_us = 0x600000 + 51,
                     connected_us = 0x600000 + 52, secured_us = 0x600000 + 56, sent_us = 0x600000 + 53,
                     first_byte_us = 0x600000 + 54;
}  // namespace curl_info

namespace curl_code {
inline constexpr int ok = 0, resolve_proxy = 5, resolve_host = 6, connect = 7, write = 23, timed_out = 28,
                     ssl_connect = 35, out_of_memory = 27, aborted = 42, got_nothing = 52, send = 55, receive = 56,
                     ssl_certificate = 58, ssl_cipher = 59, peer_failed_verification = 60, ca_file = 77,
                     ssl_issuer = 83;
}  // namespace curl_code

// curl_sockaddr; longer where the address is.
struct CurlSocketAddress {
  int family;
  int kind;
  int protocol;
  unsigned length;
};

// CURLMsg.
struct CurlMessage {
  int kind;
  void* easy;
  union {
    void* whatever;
    int code;
  } data;
};

struct Curl {
  int (*global_init)(long);
  void* (*easy_init)();
  void (*easy_reset)(void*);
  void (*easy_cleanup)(void*);
  int (*easy_setopt)(void*, int, ...);
  int (*easy_getinfo)(void*, int, ...);
  void* (*multi_init)();
  int (*multi_cleanup)(void*);
  int (*multi_setopt)(void*, int, ...);
  int (*multi_add_handle)(void*, void*);
  int (*multi_remove_handle)(void*, void*);
  int (*multi_socket_action)(void*, int, int, int*);
  CurlMessage* (*multi_info_read)(void*, int*);
  const char* (*easy_strerror)(int);
  void* (*slist_append)(void*, const char*);
  void (*slist_free_all)(void*);
};

// Whether curl_version() names libcurl 7.76 or newer.
[[nodiscard]] bool is_recent_curl(std::string_view version) noexcept;

// What the library says of itself; null: it does not say.
struct CurlFacts {
  std::string path;     // of the file that was loaded
  std::string version;  // as curl_version() has it, with the TLS library
  const char* ca_file = nullptr;
  const char* ca_directory = nullptr;
};

// As curl(), which it loads.
const CurlFacts& curl_facts();

// Thread-safe. Throws Error(inval, "no-http") if no libcurl can be loaded; the text says what was tried. The
// environment variable DAMACY_LIBCURL names a file to load instead.
const Curl& curl();

}  // namespace damacy::http
