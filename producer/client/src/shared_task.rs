//! The handle to a background task that serves all clones of a client.
//!
//! The task starts with the first call, because only then the runtime is known. It is started again
//! if its runtime has ended or it has panicked. It ends when every clone is gone.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most calls that wait for the task; further callers wait until there is room.
const CALLS_MAX: usize = 64;

/// The sending side of a task that is started with the first item.
pub(crate) struct SharedTask<T>(Arc<Mutex<Option<Sender<T>>>>);

impl<T> Clone for SharedTask<T> {
    fn clone(&self) -> SharedTask<T> {
        SharedTask(self.0.clone())
    }
}

impl<T> Default for SharedTask<T> {
    fn default() -> SharedTask<T> {
        SharedTask(Arc::default())
    }
}

impl<T: Send + 'static> SharedTask<T> {
    /// Passes a call to the task. If the task is gone, the call is dropped, which its caller
    /// notices.
    pub async fn send<F>(&self, call: T, task: impl FnOnce(Receiver<T>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.sender(task).send(call).await);
    }

    fn sender<F>(&self, task: impl FnOnce(Receiver<T>) -> F) -> Sender<T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut known = self.0.lock().expect("no holder panics");
        match &*known {
            Some(sender) if !sender.is_closed() => sender.clone(),
            Some(_) | None => {
                let (sender, calls) = channel(CALLS_MAX);
                tokio::spawn(task(calls));
                known.insert(sender).clone()
            }
        }
    }
}
