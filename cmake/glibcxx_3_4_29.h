// Included first into every source of a wheel that g++ 12 or newer builds. The libstdc++ of RHEL 9 and Ubuntu 22.04
// (GCC 11, GLIBCXX_3.4.29) has only the first version of condition_variable::wait; newer ones have both versions. They
// differ only for a thread that is cancelled while it waits, which damacy never does.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif
