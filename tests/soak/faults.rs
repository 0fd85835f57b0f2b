//! Faults: a proxy that cuts connections, clients that read slowly, agents that read nothing.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use testkit::http::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// The proxy's fault of a connection, by the connection's number.
enum Fault {
    None,
    Refuse,
    Delay,
    Trickle,
    /// Ends the connection after this number of bytes of the response.
    Close(usize),
    Reset(usize),
}

impl Fault {
    fn for_connection(number: usize) -> Self {
        // Multiples of a prime, so that cuts occur in every part of a response.
        let bytes = number * 211 % 4000;
        match number % 6 {
            0 => Self::Refuse,
            1 => Self::None,
            2 => Self::Delay,
            3 => Self::Trickle,
            4 => Self::Close(bytes),
            _ => Self::Reset(bytes),
        }
    }
}

/// Starts a proxy to the server at `address`.
pub(super) async fn proxy(address: SocketAddr) -> Server {
    Server::start(move |client, number| forward(client, address, Fault::for_connection(number)))
        .await
}

async fn forward(mut client: TcpStream, address: SocketAddr, fault: Fault) -> io::Result<()> {
    if matches!(fault, Fault::Refuse) {
        return client.set_zero_linger();
    }
    let mut server = TcpStream::connect(address).await?;
    if matches!(fault, Fault::Delay) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (mut from_server, mut to_server) = server.split();
    let (mut from_client, mut to_client) = client.split();
    let request = tokio::io::copy(&mut from_client, &mut to_server);
    let response = async {
        let (mut buffer, mut sent_bytes) = ([0; 4096], 0);
        loop {
            let limit = match fault {
                Fault::Trickle => 256,
                Fault::Close(bytes) | Fault::Reset(bytes) => (bytes - sent_bytes).clamp(1, 4096),
                _ => 4096,
            };
            let read = from_server.read(&mut buffer[..limit]).await?;
            to_client.write_all(&buffer[..read]).await?;
            sent_bytes += read;
            let is_cut =
                matches!(fault, Fault::Close(bytes) | Fault::Reset(bytes) if sent_bytes >= bytes);
            if read == 0 || is_cut {
                return io::Result::Ok(());
            }
            if matches!(fault, Fault::Trickle) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    };
    tokio::select! {
        result = request => drop(result),
        result = response => drop(result),
    }
    if matches!(fault, Fault::Reset(_)) {
        client.set_zero_linger()?;
    }
    Ok(())
}

/// Requests a long stream from an A2A server, reads a little of it slowly, and disconnects.
pub(super) async fn slow_reader(address: SocketAddr, token: &str) -> io::Result<()> {
    let message = json!({"messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER", "parts": [{"text": "chunks 400"}]});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}});
    let body = body.to_string();
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(address).await?;
    let head = format!(
        "POST /a2a HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nA2A-Version: 1.0\r\n\
        Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut buffer = [0; 1024];
    for _ in 0..20 {
        if stream.read(&mut buffer).await? == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
