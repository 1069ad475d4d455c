// Names time ranges for a profiler (NVTX). Costs almost nothing without a profiler, and nothing without CUDA.
#pragma once

namespace damacy {

class TraceRange {  // from construction to destruction, on this thread
 public:
  explicit TraceRange(const char* name) noexcept;
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
  ~TraceRange();
};

}  // namespace damacy
