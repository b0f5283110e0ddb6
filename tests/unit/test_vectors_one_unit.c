/* SPDX-License-Identifier: MIT */
/* test_vectors_one_unit.c - test_vectors.c with the library in the unit, of which
 * its functions then inline the slow paths, too. */
#include "percpu_all.c"

#include "test_vectors.c"
