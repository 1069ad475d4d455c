#include "damacy/store/http/curl.h"

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include <dlfcn.h>
#if __has_include(<curl/curl.h>)
#include <curl/curl.h>
#endif

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::http {
namespace {

#if __has_include(<curl/curl.h>)
static_assert(curl_option::write_data == CURLOPT_WRITEDATA && curl_option::url == CURLOPT_URL);
static_assert(curl_option::error_buffer == CURLOPT_ERRORBUFFER && curl_option::range == CURLOPT_RANGE);
static_assert(curl_option::proxy == CURLOPT_PROXY && curl_option::no_body == CURLOPT_NOBODY);
static_assert(curl_option::post_fields == CURLOPT_POSTFIELDS && curl_option::post_field_size == CURLOPT_POSTFIELDSIZE);
static_assert(curl_option::custom_request == CURLOPT_CUSTOMREQUEST);
static_assert(curl_option::user_agent == CURLOPT_USERAGENT && curl_option::http_header == CURLOPT_HTTPHEADER);
static_assert(curl_option::header_data == CURLOPT_HEADERDATA);
static_assert(curl_option::ca_directory == CURLOPT_CAPATH);
static_assert(curl_option::ca_file == CURLOPT_CAINFO && curl_option::low_speed_limit == CURLOPT_LOW_SPEED_LIMIT);
static_assert(curl_option::low_speed_time == CURLOPT_LOW_SPEED_TIME && curl_option::ssl_version == CURLOPT_SSLVERSION);
static_assert(curl_option::no_progress == CURLOPT_NOPROGRESS && curl_option::netrc == CURLOPT_NETRC);
static_assert(curl_option::follow == CURLOPT_FOLLOWLOCATION && curl_option::http_version == CURLOPT_HTTP_VERSION);
static_assert(curl_option::buffer_size == CURLOPT_BUFFERSIZE && curl_option::no_signal == CURLOPT_NOSIGNAL);
static_assert(curl_option::connect_timeout_ms == CURLOPT_CONNECTTIMEOUT_MS);
static_assert(curl_option::content_decoding == CURLOPT_HTTP_CONTENT_DECODING);
static_assert(curl_option::keep_alive == CURLOPT_TCP_KEEPALIVE && curl_option::http09 == CURLOPT_HTTP09_ALLOWED);
static_assert(curl_option::write_function == CURLOPT_WRITEFUNCTION);
static_assert(curl_option::header_function == CURLOPT_HEADERFUNCTION);
static_assert(curl_option::private_data == CURLOPT_PRIVATE && curl_option::timeout_ms == CURLOPT_TIMEOUT_MS);
static_assert(curl_option::shuffle_addresses == CURLOPT_DNS_SHUFFLE_ADDRESSES);
static_assert(curl_option::idle_connection_s == CURLOPT_MAXAGE_CONN);
static_assert(curl_option::open_socket_function == CURLOPT_OPENSOCKETFUNCTION);
static_assert(curl_option::close_socket_function == CURLOPT_CLOSESOCKETFUNCTION);
#if LIBCURL_VERSION_NUM >= 0x075700
static_assert(curl_option::quick_exit == CURLOPT_QUICK_EXIT);
#endif
static_assert(curl_multi_option::max_connections_kept == CURLMOPT_MAXCONNECTS);
static_assert(curl_multi_option::socket_data == CURLMOPT_SOCKETDATA);
static_assert(curl_multi_option::socket_function == CURLMOPT_SOCKETFUNCTION);
static_assert(curl_multi_option::timer_data == CURLMOPT_TIMERDATA);
static_assert(curl_multi_option::timer_function == CURLMOPT_TIMERFUNCTION);
static_assert(kInfoPrivate == CURLINFO_PRIVATE && kMessageDone == CURLMSG_DONE);
static_assert(kPollIn == CURL_POLL_IN && kPollOut == CURL_POLL_OUT && kPollRemove == CURL_POLL_REMOVE);
static_assert(kSelectIn == CURL_CSELECT_IN && kSelectOut == CURL_CSELECT_OUT && kSelectError == CURL_CSELECT_ERR);
static_assert(kSocketTimeout == CURL_SOCKET_TIMEOUT && curl_code::aborted == CURLE_ABORTED_BY_CALLBACK);
static_assert(sizeof(CurlMessage) == sizeof(CURLMsg) && offsetof(CurlMessage, data) == offsetof(CURLMsg, data));
static_assert(offsetof(CurlSocketAddress, length) == offsetof(curl_sockaddr, addrlen));
static_assert(kTls12 == CURL_SSLVERSION_TLSv1_2 && kHttp11 == CURL_HTTP_VERSION_1_1);
static_assert(kErrorBytes == CURL_ERROR_SIZE && kHttpAndHttps == (CURLPROTO_HTTP | CURLPROTO_HTTPS));
static_assert(curl_code::timed_out == CURLE_OPERATION_TIMEDOUT && curl_code::ca_file == CURLE_SSL_CACERT_BADFILE);
static_assert(curl_code::peer_failed_verification == CURLE_PEER_FAILED_VERIFICATION);
static_assert(curl_code::got_nothing == CURLE_GOT_NOTHING && curl_code::send == CURLE_SEND_ERROR);
static_assert(curl_info::os_errno == CURLINFO_OS_ERRNO && curl_info::connections == CURLINFO_NUM_CONNECTS);
static_assert(curl_info::first_byte_us == CURLINFO_STARTTRANSFER_TIME_T);
static_assert(curl_option::suppress_connect_headers == CURLOPT_SUPPRESS_CONNECT_HEADERS);
static_assert(curl_option::open_socket_data == CURLOPT_OPENSOCKETDATA);
static_assert(curl_option::close_socket_data == CURLOPT_CLOSESOCKETDATA);
static_assert(curl_info::primary_address == CURLINFO_PRIMARY_IP);
static_assert(curl_info::name_us == CURLINFO_NAMELOOKUP_TIME_T && curl_info::connected_us == CURLINFO_CONNECT_TIME_T);
static_assert(curl_info::secured_us == CURLINFO_APPCONNECT_TIME_T);
static_assert(curl_info::sent_us == CURLINFO_PRETRANSFER_TIME_T);
static_assert(curl_code::receive == CURLE_RECV_ERROR && curl_code::write == CURLE_WRITE_ERROR);
#endif

// The beginning of curl_version_info_data.
struct VersionInfo {
  int age;
  const char* version;
  unsigned version_number;
  const char* host;
  int features;
  const char* ssl_version;
  long ssl_version_number;
  const char* libz_version;
  const char* const* protocols;
  const char* ares;
  int ares_number;
  const char* libidn;
  int iconv_number;
  const char* libssh_version;
  unsigned brotli_number;
  const char* brotli_version;
  unsigned nghttp2_number;
  const char* nghttp2_version;
  const char* quic_version;
  const char* cainfo;
  const char* capath;
};
constexpr int kWithCaFile = 6;  // CURLVERSION_SEVENTH
#if __has_include(<curl/curl.h>)
static_assert(offsetof(VersionInfo, cainfo) == offsetof(curl_version_info_data, cainfo));
static_assert(offsetof(VersionInfo, capath) == offsetof(curl_version_info_data, capath));
static_assert(kWithCaFile == CURLVERSION_SEVENTH);
#endif

struct Loaded {
  Curl api{};
  CurlFacts facts;
};

// Never closed: a thread may be in it until the process ends.
void* opened(const char* name, std::string& tried) {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    tried += formatted("{}{} ({})", tried.empty() ? "" : "; ", name, why == nullptr ? "unknown" : why);
  }
  return library;
}

int take_number(std::string_view& text) {
  int number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc()) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

template <class Function>
void take(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw Error(Status::inval, formatted("the libcurl that was loaded has no {}", name), "no-http");
}

Loaded loaded() {
  std::string tried;
  void* library = nullptr;
  if (const char* const named = std::getenv("DAMACY_LIBCURL"); named != nullptr && *named != '\0') {
    library = opened(named, tried);
  } else {
    for (const char* const name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
      if (library == nullptr) library = opened(name, tried);
  }
  if (library == nullptr)
    throw Error(
        Status::inval,
        formatted("no libcurl can be loaded: {}; install it (Debian: apt-get install libcurl4), name its file in "
                  "DAMACY_LIBCURL, or mount a store of obstore with damacy.mount",
                  tried),
        "no-http");
  Loaded out;
  Curl& curl = out.api;
  take(library, "curl_global_init", curl.global_init);
  take(library, "curl_easy_init", curl.easy_init);
  take(library, "curl_easy_reset", curl.easy_reset);
  take(library, "curl_easy_cleanup", curl.easy_cleanup);
  take(library, "curl_easy_setopt", curl.easy_setopt);
  take(library, "curl_easy_getinfo", curl.easy_getinfo);
  take(library, "curl_multi_init", curl.multi_init);
  take(library, "curl_multi_cleanup", curl.multi_cleanup);
  take(library, "curl_multi_setopt", curl.multi_setopt);
  take(library, "curl_multi_add_handle", curl.multi_add_handle);
  take(library, "curl_multi_remove_handle", curl.multi_remove_handle);
  take(library, "curl_multi_socket_action", curl.multi_socket_action);
  take(library, "curl_multi_info_read", curl.multi_info_read);
  take(library, "curl_easy_strerror", curl.easy_strerror);
  take(library, "curl_slist_append", curl.slist_append);
  take(library, "curl_slist_free_all", curl.slist_free_all);
  const char* (*version)() = nullptr;
  take(library, "curl_version", version);
  if (!is_recent_curl(version()))
    throw Error(Status::inval, formatted("libcurl 7.76 or newer is needed, not {}", one_line(version(), 40)),
                "no-http");
  constexpr long kAll = 3;  // CURL_GLOBAL_ALL
  if (const int code = curl.global_init(kAll); code != curl_code::ok)
    throw Error(Status::inval, formatted("libcurl cannot start: {}", curl.easy_strerror(code)), "no-http");
  out.facts.version = version();
  if (Dl_info from; ::dladdr(reinterpret_cast<void*>(version), &from) != 0 && from.dli_fname != nullptr)
    out.facts.path = from.dli_fname;
  const VersionInfo* (*info)(int) = nullptr;
  take(library, "curl_version_info", info);
  if (const VersionInfo* const says = info(kWithCaFile); says->age >= kWithCaFile) {
    out.facts.ca_file = says->cainfo;
    out.facts.ca_directory = says->capath;
  }
  return out;
}

const Loaded& library() {
  static const Loaded once = loaded();
  return once;
}

}  // namespace

bool is_recent_curl(std::string_view version) noexcept {
  constexpr std::string_view kName = "libcurl/";
  if (!version.starts_with(kName)) return false;
  version.remove_prefix(kName.size());
  const int major = take_number(version);
  if (!version.starts_with('.')) return false;
  version.remove_prefix(1);
  const int minor = take_number(version);
  return major > 7 || (major == 7 && minor >= 76);
}

const Curl& curl() {
  return library().api;
}

const CurlFacts& curl_facts() {
  return library().facts;
}

}  // namespace damacy::http
