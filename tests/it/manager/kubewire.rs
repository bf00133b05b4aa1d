//! The wire between a manager and the API server, which can be made to let nothing through: a
//! manager that is killed then has had the cloud's reply and has written nothing.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::peers::kube::KubePlane;

/// A wire; it ends with the test's runtime.
pub struct KubeWire {
    folder: TempDir,
    open: watch::Sender<bool>,
}

impl KubeWire {
    /// One to this API server, open.
    pub async fn new(plane: &KubePlane) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("https://{}", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(plane.kubeconfig()).unwrap();
        let mut access: Value = serde_json::from_str(&text).unwrap();
        access["clusters"][0]["cluster"]["server"] = json!(at);
        std::fs::write(folder.path().join("kubeconfig"), access.to_string()).unwrap();
        let (open, gate) = watch::channel(true);
        let server = plane.url().trim_start_matches("https://").to_owned();
        tokio::spawn(async move {
            while let Ok((manager, _)) = listener.accept().await {
                let (gate, server) = (gate.clone(), server.clone());
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(server).await {
                        carry(manager, server, gate).await;
                    }
                });
            }
        });
        Self { folder, open }
    }

    /// What a manager reads to use it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// From now on what a manager sends is held back, or is let through again.
    pub fn open(&self, open: bool) {
        self.open.send_replace(open);
    }
}

async fn carry(manager: TcpStream, server: TcpStream, mut gate: watch::Receiver<bool>) {
    let (mut from_manager, mut to_manager) = manager.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = tokio::spawn(async move {
        // Either side may leave at any time.
        let _ = tokio::io::copy(&mut from_server, &mut to_manager).await;
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from_manager.read(&mut buffer).await {
        if gate.wait_for(|open| *open).await.is_err()
            || to_server.write_all(&buffer[..read]).await.is_err()
        {
            break;
        }
    }
    back.abort();
}
