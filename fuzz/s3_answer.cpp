// Bodies that S3 answers with: any bytes give short words, names of one level, or nothing.
#include <cstdlib>
#include <string_view>

#include "damacy/store/http/times.h"
#include "damacy/store/s3/aws_files.h"
#include "damacy/store/s3/credentials.h"
#include "damacy/store/s3/xml.h"

using namespace damacy::s3;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const ErrorBody error = parse_error(input);
  check(error.code.size() <= 60 && error.region.size() <= 40 && error.message.size() <= 900);
  check(error.message.find('\n') == error.message.npos && error.code.find('<') == error.code.npos);
  if (const auto page = parse_listing("a/", input))
    for (const auto& entry : page->entries) check(!entry.name.empty() && entry.name.find('/') == entry.name.npos);
  for (const auto& [section, fields] : parse_aws_file(input))
    for (const auto& [name, value] : fields) check(!name.empty() && value.find('\n') == value.npos);
  static_cast<void>(json_string(input, "Token"));
  static_cast<void>(damacy::http::parse_time(input));
  static_cast<void>(damacy::http::parse_http_date(input));
  return 0;
}
