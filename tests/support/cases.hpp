// SPDX-License-Identifier: Apache-2.0
// Numbers of cases of long tests, by the build that runs them.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESSERA_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_TEST_SANITIZED 1
#endif

namespace tessera::support {

/// Is this build one that looks for memory errors and races? What is right it need not show again: the plain
/// build runs all cases, ten to seventy times as fast.
#ifdef TESSERA_TEST_SANITIZED
constexpr bool k_sanitized = true;
#else
constexpr bool k_sanitized = false;
#endif

/// Of `all` cases those that this build takes: an eighth in one that is sanitized, at least one.
template <class Number>
constexpr Number cases(Number all) {
  return k_sanitized ? (all + 7) / 8 : all;
}

}  // namespace tessera::support
