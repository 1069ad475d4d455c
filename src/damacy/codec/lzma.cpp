#include "damacy/codec/lzma.h"

#include <lzma.h>

#include <algorithm>
#include <array>
#include <new>

#include "damacy/core/limits.h"

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

namespace {

// By operator new, which tests make fail.
const lzma_allocator kAllocator{
    [](void*, std::size_t count, std::size_t size) -> void* { return ::operator new(count * size, std::nothrow); },
    [](void*, void* bytes) { ::operator delete(bytes); }, nullptr};

const std::uint8_t* unsigned_bytes(ByteSpan bytes) noexcept {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

// Filters as the library takes them.
class FilterChain {
 public:
  explicit FilterChain(const std::vector<LzmaFilter>& filters) noexcept {
    const std::size_t count = std::min<std::size_t>(filters.size(), LZMA_FILTERS_MAX);
    for (std::size_t i = 0; i < count; ++i) chain_[i] = {filters[i].id, options(filters[i], i)};
    chain_[count] = {LZMA_VLI_UNKNOWN, nullptr};
  }
  FilterChain(const FilterChain&) = delete;
  FilterChain& operator=(const FilterChain&) = delete;

  const lzma_filter* get() const noexcept { return chain_.data(); }

 private:
  void* options(const LzmaFilter& filter, std::size_t i) noexcept {
    if (filter.id == LzmaFilter::kDelta) {
      delta_[i] = {};
      delta_[i].type = LZMA_DELTA_TYPE_BYTE;
      delta_[i].dist = filter.distance;
      return &delta_[i];
    }
    if (filter.id == LzmaFilter::kLzma1 || filter.id == LzmaFilter::kLzma2) {
      lzma_[i] = {};
      lzma_[i].dict_size = filter.dictionary;
      lzma_[i].lc = filter.literal_context;
      lzma_[i].lp = filter.literal_position;
      lzma_[i].pb = filter.position;
      return &lzma_[i];
    }
    branch_[i] = {};
    branch_[i].start_offset = filter.start;
    return &branch_[i];
  }

  std::array<lzma_filter, LZMA_FILTERS_MAX + 1> chain_;
  std::array<lzma_options_lzma, LZMA_FILTERS_MAX> lzma_;
  std::array<lzma_options_delta, LZMA_FILTERS_MAX> delta_;
  std::array<lzma_options_bcj, LZMA_FILTERS_MAX> branch_;
};

// What the library says of data that it does not decode.
DecodeResult refusal(lzma_ret code, std::uint64_t decoded) {
  switch (code) {
    case LZMA_MEM_ERROR:
      throw std::bad_alloc();
    case LZMA_BUF_ERROR:
      return failed(DecodeStatus::frame, "lzma: data end early, after decoded bytes", decoded);
    case LZMA_FORMAT_ERROR:
      return failed(DecodeStatus::frame, "lzma: not of the container that metadata say");
    case LZMA_OPTIONS_ERROR:
      return failed(DecodeStatus::unsupported, "lzma: options that this version does not decode");
    case LZMA_UNSUPPORTED_CHECK:
      return failed(DecodeStatus::unsupported, "lzma: a kind of checksum that this version does not verify");
    default:
      return failed(DecodeStatus::frame, "lzma: malformed data, or a wrong checksum, after decoded bytes", decoded);
  }
}

}  // namespace

std::optional<std::uint32_t> lzma_dictionary(std::uint32_t preset) noexcept {
  lzma_options_lzma options{};
  if (lzma_lzma_preset(&options, preset)) return std::nullopt;
  return options.dict_size;
}

std::optional<std::uint64_t> lzma_raw_memory(const std::vector<LzmaFilter>& filters) noexcept {
  if (filters.size() > LZMA_FILTERS_MAX) return std::nullopt;
  const std::uint64_t memory = lzma_raw_decoder_memusage(FilterChain(filters).get());
  return memory == UINT64_MAX ? std::nullopt : std::optional(memory);
}

bool xz_has_checksum(ByteSpan encoded) noexcept {
  constexpr std::uint64_t kEnd = LZMA_STREAM_HEADER_SIZE;
  if (encoded.size() < 2 * kEnd) return false;
  const std::uint8_t* const bytes = unsigned_bytes(encoded);
  const std::uint64_t last = encoded.size() - kEnd;
  lzma_stream_flags flags{};
  if (lzma_stream_footer_decode(&flags, bytes + last) != LZMA_OK || flags.check == LZMA_CHECK_NONE) return false;
  if (flags.backward_size > last) return false;
  lzma_index* index = nullptr;
  std::uint64_t memory = Limits::lzma_memory(0);
  std::size_t at = last - flags.backward_size;
  if (lzma_index_buffer_decode(&index, &memory, &kAllocator, bytes, &at, last) != LZMA_OK) return false;
  const bool is_one =
      lzma_index_stream_flags(index, &flags) == LZMA_OK && lzma_index_file_size(index) == encoded.size();
  lzma_index_end(index, &kAllocator);
  return is_one;
}

struct LzmaDecoder::State {
  State() noexcept { stream.allocator = &kAllocator; }
  ~State() { lzma_end(&stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  DecodeResult begin(const LzmaFormat& format, std::uint64_t limit) {
    lzma_ret code = LZMA_OK;
    if (format.container == LzmaFormat::Container::xz) {
      code = lzma_stream_decoder(&stream, limit, LZMA_CONCATENATED | LZMA_TELL_UNSUPPORTED_CHECK);
    } else if (format.container == LzmaFormat::Container::alone) {
      code = lzma_alone_decoder(&stream, limit);
    } else {
      if (const auto memory = lzma_raw_memory(format.filters); memory && *memory > limit)
        return failed(DecodeStatus::limit, "lzma: memory that the filters ask for", *memory, limit);
      code = lzma_raw_decoder(&stream, FilterChain(format.filters).get());
    }
    return code == LZMA_OK ? DecodeResult{} : refusal(code, 0);
  }

  // Fills `out`; `left` is what stays unfilled.
  DecodeResult run(ByteSpan encoded, MutableByteSpan out, std::uint64_t limit, std::uint64_t& left) {
    std::uint8_t more = 0;  // the end of the data is found after the last byte of output
    bool is_full = false;
    stream.next_in = unsigned_bytes(encoded);
    stream.avail_in = encoded.size();
    stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream.avail_out = out.size();
    for (;;) {
      if (stream.avail_out == 0 && !is_full) {
        is_full = true;
        stream.next_out = &more;
        stream.avail_out = 1;
      }
      const lzma_ret code = lzma_code(&stream, LZMA_FINISH);
      if (is_full && stream.avail_out == 0)
        return failed(DecodeStatus::size, "lzma: more bytes than expected", out.size() + 1, out.size());
      left = is_full ? 0 : stream.avail_out;
      if (code == LZMA_STREAM_END) return {};
      if (code == LZMA_MEMLIMIT_ERROR)
        return failed(DecodeStatus::limit, "lzma: memory that the data ask for", lzma_memusage(&stream), limit);
      if (code != LZMA_OK) return refusal(code, out.size() - left);
    }
  }

  lzma_stream stream = LZMA_STREAM_INIT;
};

LzmaDecoder::LzmaDecoder() : state_(std::make_unique<State>()) {}
LzmaDecoder::~LzmaDecoder() = default;
LzmaDecoder::LzmaDecoder(LzmaDecoder&&) noexcept = default;
LzmaDecoder& LzmaDecoder::operator=(LzmaDecoder&&) noexcept = default;

DecodeResult LzmaDecoder::decode(const LzmaFormat& format, ByteSpan encoded, MutableByteSpan out,
                                 std::uint64_t* produced) {
  const std::uint64_t limit = Limits::lzma_memory(out.size());
  if (const DecodeResult result = state_->begin(format, limit); !result.ok()) return result;
  std::uint64_t left = 0;
  if (const DecodeResult result = state_->run(encoded, out, limit, left); !result.ok()) return result;
  if (state_->stream.avail_in != 0)
    return failed(DecodeStatus::frame, "lzma: bytes behind the data", state_->stream.avail_in, 0);
  if (produced != nullptr)
    *produced = out.size() - left;
  else if (left != 0)
    return failed(DecodeStatus::size, "lzma: decoded size", out.size() - left, out.size());
  return {};
}

}  // namespace damacy
