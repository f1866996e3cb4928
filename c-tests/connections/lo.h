/*
 * For programs that connect by librdmacm over uroce_lo, in a separate network namespace.
 */
#ifndef LO_H
#define LO_H

#define HERE "127.0.0.1"
#include "cm.h"
#include "network.h"

#endif
