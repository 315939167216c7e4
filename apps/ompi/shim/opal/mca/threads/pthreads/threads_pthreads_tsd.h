/* SPDX-License-Identifier: BSD-3-Clause */
/* threads_pthreads_tsd.h - thread-specific data: see threads_pthreads_mutex.h. */
#ifndef SHIM_THREADS_PTHREADS_TSD_H
#define SHIM_THREADS_PTHREADS_TSD_H

#include <pthread.h>

typedef pthread_key_t opal_tsd_key_t;

static inline int opal_tsd_key_delete(opal_tsd_key_t key)
{
    return pthread_key_delete(key) ? OPAL_ERR_IN_ERRNO : OPAL_SUCCESS;
}

static inline int opal_tsd_set(opal_tsd_key_t key, void *value)
{
    return pthread_setspecific(key, value) ? OPAL_ERR_IN_ERRNO : OPAL_SUCCESS;
}

static inline int opal_tsd_get(opal_tsd_key_t key, void **ret)
{
    *ret = pthread_getspecific(key);
    return OPAL_SUCCESS;
}

#endif
