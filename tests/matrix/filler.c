/* SPDX-License-Identifier: MIT */
/* filler.c - another library with 540 bytes of static TLS, which it uses. */
static __thread char filler[540] __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) char *filler_at(unsigned i);

char *filler_at(unsigned i)
{
	return &filler[i];
}
