#include "damacy/store/s3/exchange.h"

#include <algorithm>
#include <array>

#include "damacy/store/http/transfer.h"

namespace damacy::s3 {

Reply exchange(Exchange asked, const http::HttpSettings& settings, std::chrono::milliseconds timeout) {
  std::vector<std::byte> memory(64 << 10);
  http::Request request{std::move(asked.url),     0,    memory,       {},
                        std::move(asked.headers), true, asked.method, std::move(asked.body)};
  const auto is_answer = [](const http::Head& head, const http::Request&, const void*) {
    return head.status >= 200 && head.status < 300;
  };
  http::Transfer transfer(std::move(request), is_answer, nullptr);
  const auto stall = std::max(std::chrono::seconds(1), std::chrono::duration_cast<std::chrono::seconds>(timeout));
  const http::TransferLimits limits{timeout, stall, http::find_certificates(settings.ca_file, settings.is_aws),
                                    settings.proxy};
  transfer.run(limits, std::chrono::steady_clock::now() + timeout);
  Reply reply{transfer.head(), {}, {}};
  if (transfer.code() != http::curl_code::ok) {
    reply.head.status = 0;
    reply.problem = transfer.is_timed_out() ? "timed out" : transfer.problem();
    return reply;
  }
  reply.body = transfer.accepts() ? std::string(reinterpret_cast<const char*>(memory.data()), transfer.landed())
                                  : transfer.refused_body();
  return reply;
}

}  // namespace damacy::s3
