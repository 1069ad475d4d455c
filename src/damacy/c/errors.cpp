// The last error of each thread, and its fields by name.
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "damacy/c.h"
#include "damacy/c/detail/calls.h"
#include "damacy/core/error.h"
#include "damacy/fileio/file.h"

namespace damacy::detail {
namespace {

static_assert(DAMACY_SHUTDOWN == static_cast<int>(Status::shutdown) && DAMACY_IO == static_cast<int>(Status::io));
static_assert(DAMACY_TIMEDELTA64 == static_cast<int>(Dtype::timedelta64) && DAMACY_BOOL == kBatchDtypes - 1);

struct LastError {
  std::optional<Error> error;
  std::string path, backend;
  std::optional<std::uint64_t> offset, length, transferred;

  void keep(const Error& given) noexcept {
    *this = LastError();
    error = given;
  }
  void keep_file(const FileError& given) {
    path = given.path;
    backend = given.backend;
    offset = given.offset;
    length = given.length;
    transferred = given.transferred;
  }
};

thread_local LastError last_error;

int keep(const Error& error) noexcept {
  last_error.keep(error);
  return static_cast<int>(error.status());
}

const std::string* field_of(const LastError& last, std::string_view name) {
  const ErrorWhere& where = last.error->where();
  if (name == "message") return &last.error->message();
  if (name == "reason") return &where.reason;
  if (name == "stage") return &where.what;
  if (name == "array") return &where.array;
  if (name == "uri") return &where.uri;
  if (name == "store") return &where.store;
  if (name == "key") return &where.key;
  if (name == "pointer") return &where.pointer;
  if (name == "path") return &last.path;
  if (name == "backend") return &last.backend;
  return nullptr;
}

std::optional<std::int64_t> number_of(const LastError& last, std::string_view name) {
  const ErrorWhere& where = last.error->where();
  const auto number = last.error->system_errno();
  if (name == "errno" && number != 0) return number;
  if (name == "sample_index") return where.sample_index;
  if (name == "stream_index") return where.stream_index;
  if (name == "batch_id") return where.batch_id;
  if (name == "offset") return last.offset;
  if (name == "length") return last.length;
  if (name == "transferred") return last.transferred;
  return std::nullopt;
}

}  // namespace

int keep_error() noexcept {
  try {
    throw;
  } catch (const FileError& error) {
    const int status = keep(error);
    (void)failure_of([&] { last_error.keep_file(error); });  // without memory the text still has them
    return status;
  } catch (const std::exception&) {
    return keep(current_error());
  } catch (...) {  // a C++ caller's, from a callback
    return keep(Error(Status::inval, "an exception of an unknown type", "arguments"));
  }
}

}  // namespace damacy::detail

using damacy::detail::last_error;

const char* damacy_error_text(void) {
  return last_error.error ? last_error.error->what() : "";
}

int damacy_error_status(void) {
  return last_error.error ? static_cast<int>(last_error.error->status()) : DAMACY_OK;
}

const char* damacy_error_field(const char* name) {
  if (name == nullptr || !last_error.error) return nullptr;
  const std::string* field = damacy::detail::field_of(last_error, name);
  return field == nullptr || field->empty() ? nullptr : field->c_str();
}

int damacy_error_number(const char* name, int64_t* value) {
  if (name == nullptr || value == nullptr || !last_error.error) return 0;
  const auto number = damacy::detail::number_of(last_error, name);
  if (number) *value = *number;
  return number ? 1 : 0;
}

size_t damacy_dtype_size(int dtype) {
  return dtype < 0 || dtype > DAMACY_TIMEDELTA64 ? 0 : damacy::size_of(static_cast<damacy::Dtype>(dtype));
}
