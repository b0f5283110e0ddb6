// SPDX-License-Identifier: MIT
//! Why a call failed.

use std::borrow::Cow;
use std::ffi::{c_int, CStr};
use std::fmt;

use percpu_sys as sys;

/// Why a call failed: the cause, with the error number and the library's sentence.
///
/// [`Display`](fmt::Display) prints the sentence, which says what was wrong, and what there is, or
/// what to do.
///
/// ```
/// let error = percpu::Segment::open("/nowhere/segment").unwrap_err();
/// assert!(matches!(error, percpu::Error::NotFound(_)));
/// assert_eq!(error.errno(), 2);
/// println!("{error}");
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An argument that cannot be: a name, a text with a byte 0, an option (EINVAL, EILSEQ).
    Invalid(Reason),
    /// A number that cannot be added, or is too large (EDOM, ERANGE).
    OutOfRange(Reason),
    /// Too long, or too many (ENAMETOOLONG, E2BIG, EMSGSIZE).
    TooLong(Reason),
    /// There is no such file, metric or series, or no longer (ENOENT, ESTALE).
    NotFound(Reason),
    /// The name is taken by something else (EEXIST).
    Exists(Reason),
    /// The kernel or the file refuses it (EACCES, EPERM, EROFS).
    Denied(Reason),
    /// The file is damaged, or is no segment (EBADMSG, EISDIR, ELOOP).
    Damaged(Reason),
    /// The file is of another version (EPROTO).
    Version(Reason),
    /// The disk, the segment or a ring is full (ENOSPC, ENOBUFS).
    Full(Reason),
    /// No memory or address space (ENOMEM).
    NoMemory(Reason),
    /// There is no value: nothing was observed, or set (ENODATA).
    Empty(Reason),
    /// Another thread or process is in the way: try again (EAGAIN, EBUSY, ETIMEDOUT).
    Busy(Reason),
    /// The file takes no locks, or a process that got none may have it open (ENOLCK).
    NoLock(Reason),
    /// The machine cannot do it (ENOTSUP).
    Unsupported(Reason),
    /// Another error of the operating system.
    Other(Reason),
}

/// The error number and the sentence of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    errno: c_int,
    /// `None`: what the number means in general. Such an error is made without an allocation, so
    /// adds may return it in signal handlers.
    sentence: Option<Cow<'static, str>>,
}

impl Reason {
    /// The number, as of `errno`: above 0.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sentence {
            Some(sentence) => f.write_str(sentence),
            // SAFETY: the function returns a constant string for every number.
            None => f.write_str(
                &unsafe { CStr::from_ptr(sys::percpu_strerror(self.errno)) }.to_string_lossy(),
            ),
        }
    }
}

impl Error {
    fn new(errno: c_int, sentence: Option<Cow<'static, str>>) -> Self {
        let variant = match errno {
            libc::EINVAL | libc::EILSEQ => Self::Invalid,
            libc::EDOM | libc::ERANGE => Self::OutOfRange,
            libc::ENAMETOOLONG | libc::E2BIG | libc::EMSGSIZE => Self::TooLong,
            libc::ENOENT | libc::ESTALE => Self::NotFound,
            libc::EEXIST => Self::Exists,
            libc::EACCES | libc::EPERM | libc::EROFS => Self::Denied,
            libc::EBADMSG | libc::EISDIR | libc::ELOOP => Self::Damaged,
            libc::EPROTO => Self::Version,
            libc::ENOSPC | libc::ENOBUFS => Self::Full,
            libc::ENOMEM => Self::NoMemory,
            libc::ENODATA => Self::Empty,
            libc::EAGAIN | libc::EBUSY | libc::ETIMEDOUT => Self::Busy,
            libc::ENOLCK => Self::NoLock,
            libc::ENOTSUP => Self::Unsupported,
            _ => Self::Other,
        };
        variant(Reason { errno, sentence })
    }

    /// What a number means in general.
    pub(crate) fn of(errno: c_int) -> Self {
        Self::new(errno, None)
    }

    /// An error that this crate finds itself.
    pub(crate) fn invalid(sentence: String) -> Self {
        Self::new(libc::EINVAL, Some(sentence.into()))
    }

    /// The same, with a sentence of its own if the library has refused what the caller gave.
    pub(crate) fn refused(self, sentence: impl FnOnce() -> String) -> Self {
        match self {
            Self::Invalid(_) | Self::OutOfRange(_) => {
                Self::new(self.errno(), Some(sentence().into()))
            }
            other => other,
        }
    }

    /// The same with a constant sentence, without an allocation.
    pub(crate) fn saying(self, sentence: &'static str) -> Self {
        Self::new(self.errno(), Some(Cow::Borrowed(sentence)))
    }

    /// The same, with what the error is about in front of its sentence.
    pub(crate) fn about(self, what: &dyn fmt::Display) -> Self {
        let sentence = format!("{what}: {self}");
        Self::new(self.errno(), Some(sentence.into()))
    }

    /// The reason: the number and the sentence.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Invalid(r)
            | Self::OutOfRange(r)
            | Self::TooLong(r)
            | Self::NotFound(r)
            | Self::Exists(r)
            | Self::Denied(r)
            | Self::Damaged(r)
            | Self::Version(r)
            | Self::Full(r)
            | Self::NoMemory(r)
            | Self::Empty(r)
            | Self::Busy(r)
            | Self::NoLock(r)
            | Self::Unsupported(r)
            | Self::Other(r) => r,
        }
    }

    /// The number, as of `errno`: above 0.
    pub fn errno(&self) -> i32 {
        self.reason().errno
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    /// Keeps the sentence. The kind is that of the number.
    fn from(e: Error) -> Self {
        Self::new(Self::from_raw_os_error(e.errno()).kind(), e)
    }
}

/// Return what a call of the library returned, which is 0 or -errno.
pub(crate) fn check(result: c_int) -> Result<(), Error> {
    if result == 0 {
        return Ok(());
    }
    Err(Error::of(-result))
}

/// The same, for the calls that say why they failed (`percpu_error()`).
pub(crate) fn explained(result: c_int) -> Result<(), Error> {
    if result == 0 {
        return Ok(());
    }
    Err(Error::new(-result, sentence().map(Cow::Owned)))
}

/// The sentence about this thread's last call that says why; `None` if there is none.
pub(crate) fn sentence() -> Option<String> {
    // SAFETY: the function returns a string, which stays until this thread's next call.
    let text = unsafe { CStr::from_ptr(sys::percpu_error()) }.to_string_lossy();
    (!text.is_empty()).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_cause() {
        type Cause = fn(Reason) -> Error;
        let causes: [(&[c_int], Cause); 15] = [
            (&[libc::EINVAL, libc::EILSEQ], Error::Invalid),
            (&[libc::EDOM, libc::ERANGE], Error::OutOfRange),
            (
                &[libc::ENAMETOOLONG, libc::E2BIG, libc::EMSGSIZE],
                Error::TooLong,
            ),
            (&[libc::ENOENT, libc::ESTALE], Error::NotFound),
            (&[libc::EEXIST], Error::Exists),
            (&[libc::EACCES, libc::EPERM, libc::EROFS], Error::Denied),
            (&[libc::EBADMSG, libc::EISDIR, libc::ELOOP], Error::Damaged),
            (&[libc::EPROTO], Error::Version),
            (&[libc::ENOSPC, libc::ENOBUFS], Error::Full),
            (&[libc::ENOMEM], Error::NoMemory),
            (&[libc::ENODATA], Error::Empty),
            (&[libc::EAGAIN, libc::EBUSY, libc::ETIMEDOUT], Error::Busy),
            (&[libc::ENOLCK], Error::NoLock),
            (&[libc::ENOTSUP], Error::Unsupported),
            (&[libc::EALREADY, libc::EIO, c_int::MAX], Error::Other),
        ];
        for (numbers, cause) in causes {
            for errno in numbers {
                let reason = Reason {
                    errno: *errno,
                    sentence: None,
                };
                assert!(!reason.to_string().is_empty());
                assert_eq!(check(-errno), Err(cause(reason)));
            }
        }
    }
}
