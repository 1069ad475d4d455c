#include "damacy/cache/disk/segment_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string>

#include <sys/random.h>

#include "damacy/codec/chain.h"
#include "damacy/core/file_transfer.h"

namespace damacy {
namespace {

using detail::Way;

std::string name_of(SegmentFiles::Number number) {
  std::string digits = std::to_string(number);
  return "segment-" + std::string(6 - std::min<std::size_t>(digits.size(), 6), '0') + digits;
}

// Empty: no segment has that name.
std::optional<SegmentFiles::Number> number_of(const std::string& name) {
  const std::size_t digits = name.find_first_of("0123456789");
  SegmentFiles::Number number = 0;
  if (digits == name.npos) return std::nullopt;
  std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return name == name_of(number) ? std::optional(number) : std::nullopt;
}

iovec vector_of(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: iovec has no const
}

// True if all were moved; else errno is set, 0 at the end of the file.
bool move(DiskCalls& calls, const DiskFile& file, Way way, std::span<const iovec> vectors, std::uint64_t offset) {
  std::uint64_t bytes = 0;
  for (const iovec& vector : vectors) bytes += vector.iov_len;
  const detail::Moved moved = detail::move_vectors(calls, file.get(), way, vectors, offset);
  errno = moved.error;
  return moved.error == 0 && moved.bytes == bytes;
}

bool move(DiskCalls& calls, const DiskFile& file, Way way, std::span<const std::byte> bytes, std::uint64_t offset) {
  const iovec vector = vector_of(bytes);
  return move(calls, file, way, {&vector, 1}, offset);
}

// No two uses of any segment have the same.
std::uint64_t new_generation() {
  std::uint64_t generation = 0;
  while (generation == 0)
    if (::getrandom(&generation, sizeof generation, 0) != sizeof generation) generation = 0;
  return generation;
}

}  // namespace

int read_vectors(DiskCalls& calls, const DiskFile& file, std::span<const iovec> vectors, std::uint64_t offset,
                 bool& whole) noexcept {
  whole = move(calls, file, Way::read, vectors, offset);
  return whole ? 0 : errno;
}

std::vector<SegmentFiles::Number> SegmentFiles::existing() const {
  std::vector<Number> numbers;
  for (const std::string& name : directory_.names())
    if (const auto number = number_of(name)) numbers.push_back(*number);
  std::ranges::sort(numbers);
  return numbers;
}

std::shared_ptr<const DiskFile> SegmentFiles::open(Number number) {
  {
    const Lock lock(mutex_);
    if (const auto at = places_.find(number); at != places_.end()) {
      kept_.splice(kept_.begin(), kept_, at->second);
      return at->second->file;
    }
  }
  DiskFile opened = directory_.open(calls_, name_of(number), /*make=*/false);
  if (!opened) return nullptr;
  auto file = std::make_shared<const DiskFile>(std::move(opened));
  const Lock lock(mutex_);
  if (places_.contains(number)) return file;
  kept_.push_front({number, file});
  places_[number] = kept_.begin();
  if (kept_.size() > kOpenFiles) {
    places_.erase(kept_.back().number);
    kept_.pop_back();
  }
  return file;
}

void SegmentFiles::forget(Number number) {
  const Lock lock(mutex_);
  const auto at = places_.find(number);
  if (at == places_.end()) return;
  kept_.erase(at->second);
  places_.erase(at);
}

std::optional<SegmentHeader> SegmentFiles::header_of(const DiskFile& file) const {
  SegmentHeaderBytes bytes{};
  if (!move(calls_, file, Way::read, bytes, 0)) return std::nullopt;
  return parse_segment_header(bytes);
}

std::uint64_t SegmentFiles::uses_of(const DiskFile& file) const {
  std::uint64_t uses = 0;
  return move(calls_, file, Way::read, std::as_bytes(std::span(&uses, 1)), SegmentHeader::kUses) ? uses : 0;
}

// Two processes at once may add one together: it is only compared with what it was.
void SegmentFiles::add_use(const DiskFile& file) const {
  const std::uint64_t uses = uses_of(file) + 1;
  move(calls_, file, Way::write, std::as_bytes(std::span(&uses, 1)), SegmentHeader::kUses);
}

std::string SegmentFiles::record_name_of(const DiskFile& file, const RecordHeader& header, std::uint64_t offset) const {
  std::string name(header.name_length, '\0');
  const auto bytes = std::as_bytes(std::span(name));
  if (!move(calls_, file, Way::read, bytes, offset + RecordHeader::kBytes + header.length)) return {};
  return crc32c(bytes) == header.name_checksum ? name : std::string();
}

bool SegmentFiles::remove_record(const DiskFile& file, const RecordHeader& header, std::uint64_t offset) const {
  if (!move(calls_, file, Way::write, encode(removed(header)), offset)) return false;
  const std::uint64_t bytes = record_bytes(header) - RecordHeader::kBytes;
  calls_.free_range(file.get(), static_cast<off_t>(offset + RecordHeader::kBytes), static_cast<off_t>(bytes));
  return true;
}

bool SegmentFiles::lock(const DiskFile& file) const {
  return calls_.lock(file.get()) == 0;
}

void SegmentFiles::remove(Number number) {
  directory_.remove(name_of(number));
  forget(number);
}

void SegmentFiles::remove_from(Number first) {
  for (const Number number : existing())
    if (number >= first) remove(number);
}

std::uint64_t SegmentFiles::scan(const DiskFile& file, std::uint64_t generation, const Visit& visit) const {
  std::uint64_t at = SegmentHeader::kFirstRecord;
  for (;;) {
    RecordHeaderBytes bytes{};
    if (!move(calls_, file, Way::read, bytes, at)) return at;
    const auto header = parse_record_header(bytes);
    if (!header || header->generation != generation) return at;
    if (!header->is_removed()) visit(*header, at);
    at += record_bytes(*header);
  }
}

std::optional<SegmentFiles::Writer> SegmentFiles::claim(Number number, How how, SegmentHeader* evicted) {
  Writer writer(*this, number, directory_.open(calls_, name_of(number), how == How::make));
  if (!writer.file_) return std::nullopt;
  if (calls_.lock(writer.file_.get()) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) errno = 0;  // it has a writer
    return std::nullopt;
  }
  const auto header = header_of(writer.file_);
  if (!header && errno != 0) return std::nullopt;
  const bool is_usable = header && header->segment_bytes == segment_bytes_;
  if (how != How::use_again && is_usable) {
    errno = 0;
    if (header->is_full) return std::nullopt;
    return go_on(std::move(writer), *header);
  }
  if (evicted != nullptr && header) {
    *evicted = *header;
    if (!header->is_full)
      scan(writer.file_, header->generation, [&](const RecordHeader& record, std::uint64_t) {
        ++evicted->records;
        evicted->payload_bytes += record.length;
      });
  }
  if (calls_.allocate(writer.file_.get(), static_cast<off_t>(segment_bytes_)) != 0) {
    const int error = errno;
    if (!header) directory_.remove(name_of(number));
    errno = error;
    return std::nullopt;
  }
  writer.header_ = {new_generation(), segment_bytes_, 0, 0, false};
  writer.end_ = SegmentHeader::kFirstRecord;
  if (!writer.write_header()) return std::nullopt;
  const std::uint64_t no_uses = 0;
  move(calls_, writer.file_, Way::write, std::as_bytes(std::span(&no_uses, 1)), SegmentHeader::kUses);
  return writer;
}

std::optional<SegmentFiles::Writer> SegmentFiles::go_on(Writer writer, const SegmentHeader& header) {
  writer.header_ = header;
  writer.header_.records = writer.header_.payload_bytes = 0;
  writer.end_ = scan(writer.file_, header.generation, [&](const RecordHeader& record, std::uint64_t) {
    ++writer.header_.records;
    writer.header_.payload_bytes += record.length;
  });
  return writer;
}

bool SegmentFiles::Writer::write_header() {
  return move(files_->calls_, file_, Way::write, encode(header_), 0);
}

std::optional<Hint> SegmentFiles::Writer::append(const ChunkKey& key, std::span<const std::byte> bytes,
                                                 std::string_view name) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  const auto name_bytes = std::as_bytes(std::span(name));
  const RecordHeader header{
      key, header_.generation, length, crc32c(bytes), static_cast<std::uint32_t>(name.size()), crc32c(name_bytes)};
  const RecordHeaderBytes head = encode(header);
  const std::array<iovec, 3> vectors{vector_of(head), vector_of(bytes), vector_of(name_bytes)};
  if (!move(files_->calls_, file_, Way::write, vectors, end_)) {
    if (errno == 0) errno = EIO;
    return std::nullopt;
  }
  const Hint hint{key.words[1], header_.generation, end_, number_, length};
  end_ += record_bytes(header);
  ++header_.records;
  header_.payload_bytes += length;
  return hint;
}

void SegmentFiles::Writer::close() {
  header_.is_full = true;
  write_header();
}

}  // namespace damacy
