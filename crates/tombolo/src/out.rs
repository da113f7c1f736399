//! Standard output, and what becomes of a command when nobody takes it.

use std::io::{self, ErrorKind, Write};

use crate::run::Failure;

/// What a command does once its output is not taken any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLoss {
    /// It stops. It only reads: whoever closed the output, as `| head` does, has seen enough.
    Stop,
    /// It goes on to its end without output, and its outcome counts: it changes something, or its exit code says
    /// something.
    GoOn,
    /// The same, and 1 is what its exit code says of what it found: that the output was lost is another one.
    GoOnTelling,
    /// It stops and has failed: the output is what it is for, and cannot be had twice.
    Fail,
}

impl OnLoss {
    fn goes_on(self) -> bool {
        matches!(self, Self::GoOn | Self::GoOnTelling)
    }
}

/// An output that knows whether it was taken.
#[derive(Debug)]
pub(crate) struct Out<W> {
    inner: W,
    on_loss: OnLoss,
    loss: Option<ErrorKind>,
}

impl<W: Write> Out<W> {
    pub(crate) fn new(inner: W, on_loss: OnLoss) -> Self {
        Self {
            inner,
            on_loss,
            loss: None,
        }
    }

    /// What a command that ended so is to be said to have done.
    pub(crate) fn end(mut self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let flushed = self.flush();
        match (self.loss, self.on_loss) {
            (Some(ErrorKind::BrokenPipe), OnLoss::Stop) => Ok(()),
            (Some(ErrorKind::BrokenPipe), OnLoss::GoOn | OnLoss::GoOnTelling) | (None, _) => outcome,
            (Some(kind), on_loss) => {
                outcome?;
                let error = flushed.err().unwrap_or_else(|| io::Error::from(kind));
                let failure =
                    Failure::from(anyhow::Error::new(error).context("the output cannot be written"));
                Err(if on_loss == OnLoss::GoOnTelling {
                    failure.untold()
                } else {
                    failure
                })
            }
        }
    }

    fn take<T>(&mut self, outcome: io::Result<T>, lost: T) -> io::Result<T> {
        match outcome {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                self.loss.get_or_insert(error.kind());
                match self.on_loss {
                    OnLoss::GoOn | OnLoss::GoOnTelling => Ok(lost),
                    OnLoss::Stop | OnLoss::Fail => Err(error),
                }
            }
            outcome => outcome,
        }
    }
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.loss.is_some() && self.on_loss.goes_on() {
            return Ok(bytes.len());
        }
        let written = self.inner.write(bytes);
        self.take(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.loss.is_some() && self.on_loss.goes_on() {
            return Ok(());
        }
        let flushed = self.inner.flush();
        self.take(flushed, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that takes one line and then fails.
    struct Head(usize, ErrorKind);

    impl Write for Head {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(self.1)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Runs a command that does three things, says so after each, and ends as told: how many it did, its exit code and
    /// whether there is a complaint.
    fn run(on_loss: OnLoss, lines: usize, loss: ErrorKind, code: u8) -> (usize, u8, bool) {
        let mut out = Out::new(Head(lines, loss), on_loss);
        let mut done = 0;
        let outcome = (0..3).try_for_each(|_| {
            done += 1;
            out.write_all(b"done\n")
        });
        let outcome = match outcome {
            Err(error) => Err(Failure::from(anyhow::Error::new(error))),
            Ok(()) if code == 0 => Ok(()),
            Ok(()) => Err(Failure { error: None, code }),
        };
        match out.end(outcome) {
            Ok(()) => (done, 0, false),
            Err(failure) => (done, failure.code, failure.error.is_some()),
        }
    }

    #[test]
    fn a_closed_output_stops_only_who_reads_and_hides_no_outcome() {
        let (closed, full) = (ErrorKind::BrokenPipe, ErrorKind::StorageFull);
        for (on_loss, lines, loss, code, expected) in [
            (OnLoss::Stop, 3, closed, 0, (3, 0, false)),
            (OnLoss::Stop, 3, closed, 1, (3, 1, false)),
            (OnLoss::Stop, 1, closed, 0, (2, 0, false)),
            (OnLoss::Stop, 1, full, 0, (2, 1, true)),
            (OnLoss::GoOn, 3, closed, 1, (3, 1, false)),
            (OnLoss::GoOn, 1, closed, 0, (3, 0, false)),
            (OnLoss::GoOn, 1, closed, 1, (3, 1, false)),
            (OnLoss::GoOn, 1, full, 0, (3, 1, true)),
            (OnLoss::GoOn, 1, full, 3, (3, 3, false)),
            (OnLoss::GoOnTelling, 1, closed, 1, (3, 1, false)),
            (OnLoss::GoOnTelling, 1, full, 0, (3, 2, true)),
            (OnLoss::GoOnTelling, 1, full, 1, (3, 1, false)),
            (OnLoss::Fail, 3, closed, 0, (3, 0, false)),
            (OnLoss::Fail, 1, closed, 0, (2, 1, true)),
            (OnLoss::Fail, 1, full, 0, (2, 1, true)),
        ] {
            let found = run(on_loss, lines, loss, code);
            assert_eq!(
                found, expected,
                "{on_loss:?}, {lines} lines, {loss:?}, code {code}"
            );
        }
    }
}
