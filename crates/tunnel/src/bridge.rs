//! Carries bytes between a tunnel's stream and what the agent dialed for it.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::connector::BoxIo;
use crate::dialer::Dialer;
use crate::link::Opened;
use crate::stream::TunnelStream;

/// The most bytes moved at once.
const CHUNK: usize = 64 << 10;

/// Dials for one stream and carries it to its end.
pub(crate) async fn carry(opened: Opened, dialer: Arc<dyn Dialer>) {
    let Opened {
        stream,
        proto,
        address,
    } = opened;
    match dialer.dial(&proto, &address).await {
        Ok(target) => {
            if let Err(error) = copy(&stream, target).await {
                tracing::debug!(address, %error, "stream broke");
                stream.fail(&error.to_string());
            }
        }
        Err(refusal) => {
            tracing::warn!(proto, address, error = %refusal, "dial refused");
            stream.fail(&refusal.to_string());
        }
    }
}

/// Ends with the first direction that ends: the protocol has no half-close, so either end is both.
async fn copy(stream: &TunnelStream, target: BoxIo) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(target);
    let inward = async {
        while let Some(bytes) = stream.chunk(CHUNK).await? {
            writer.write_all(&bytes).await?;
            writer.flush().await?;
        }
        writer.shutdown().await
    };
    let outward = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            let size = reader.read(&mut buffer).await?;
            if size == 0 {
                return Ok(());
            }
            stream.send_all(&buffer[..size]).await?;
        }
    };
    tokio::select! {
        biased;
        done = outward => done,
        done = inward => done,
    }
}
