// SPDX-License-Identifier: MIT
//! What all handles have in common: the pointer of the C library, and what keeps it valid.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::region::Region;
use crate::segment::Keep;

/// An object of the C library. Public for the types of [`Series`](crate::Series), in a private
/// module.
pub trait Object {
    /// Free an object of this process.
    ///
    /// # Safety
    /// No thread uses the object, now or later.
    unsafe fn destroy(this: *mut Self);
}

/// Implement [`Object`] by a function of the C library, which returns nothing.
macro_rules! object {
    ($type:ident, $destroy:ident) => {
        impl crate::handle::Object for percpu_sys::$type {
            unsafe fn destroy(this: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { percpu_sys::$destroy(this) }
            }
        }
    };
}
pub(crate) use object;

/// Frees a handle, and leaves the object in its region.
type Detach<T> = unsafe extern "C" fn(*mut T);

/// An object that this process has created, or attached to.
struct Private<T: Object> {
    raw: NonNull<T>,
    /// Of an object in a region, which is unmapped behind it.
    place: Option<(Detach<T>, Region)>,
}

impl<T: Object> Drop for Private<T> {
    fn drop(&mut self) {
        // SAFETY: the last handle is gone, and the region is still there.
        unsafe {
            match self.place {
                Some((detach, _)) => detach(self.raw.as_ptr()),
                None => T::destroy(self.raw.as_ptr()),
            }
        }
    }
}

// SAFETY: all calls on objects may be made by any thread.
unsafe impl<T: Object> Send for Private<T> {}
// SAFETY: as above, and by several at the same time.
unsafe impl<T: Object> Sync for Private<T> {}

/// What keeps an object valid: the object itself, or the segment that it is in.
enum Home<T: Object> {
    Private(#[allow(dead_code)] Arc<Private<T>>),
    Segment(#[allow(dead_code)] Keep),
}

impl<T: Object> Clone for Home<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Private(object) => Self::Private(object.clone()),
            Self::Segment(segment) => Self::Segment(segment.clone()),
        }
    }
}

/// A handle: its clones lead to the same object.
pub struct Handle<T: Object> {
    raw: NonNull<T>,
    home: Home<T>,
}

impl<T: Object> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            raw: self.raw,
            home: self.home.clone(),
        }
    }
}

// SAFETY: all calls on objects may be made by any thread.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above, and by several at the same time.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Create an object of this process by a call that stores it.
    pub(crate) fn create(call: impl FnOnce(*mut *mut T) -> c_int) -> Result<Self, Error> {
        Self::made(call, None)
    }

    /// Create an object in a region, or attach to one, by a call that stores it.
    pub(crate) fn in_region(
        region: &Region,
        detach: Detach<T>,
        call: impl FnOnce(*mut sys::percpu_region, *mut *mut T) -> c_int,
    ) -> Result<Self, Error> {
        Self::made(
            |ret| call(region.raw(), ret),
            Some((detach, region.clone())),
        )
    }

    fn made(
        call: impl FnOnce(*mut *mut T) -> c_int,
        place: Option<(Detach<T>, Region)>,
    ) -> Result<Self, Error> {
        let mut raw = std::ptr::null_mut();
        check(call(&mut raw))?;
        let raw = non_null(raw)?;
        Ok(Self {
            raw,
            home: Home::Private(Arc::new(Private { raw, place })),
        })
    }

    /// A handle of an object that the segment keeps.
    pub(crate) fn of_segment(raw: *mut T, segment: &Keep) -> Result<Self, Error> {
        Ok(Self {
            raw: non_null(raw)?,
            home: Home::Segment(segment.clone()),
        })
    }

    #[inline(always)]
    pub(crate) fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

/// A pointer that a call has stored: it is not NULL if the call has succeeded.
pub(crate) fn non_null<T>(raw: *mut T) -> Result<NonNull<T>, Error> {
    NonNull::new(raw).ok_or_else(|| Error::invalid("the library has stored no object".into()))
}

/// Print a handle as the name of its type.
macro_rules! debug_as_name {
    ($type:ident $(<$parameter:ident>)?) => {
        impl $(<$parameter>)? std::fmt::Debug for $type $(<$parameter>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use debug_as_name;
