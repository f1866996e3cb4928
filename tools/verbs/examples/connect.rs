//! A client sends a message to a server, which returns it. Each end may run on another machine:
//!
//!     cargo run --example connect                         # both ends
//!     cargo run --example connect -- listen 0.0.0.0:7471
//!     cargo run --example connect -- 192.0.2.1:7471
//!
//! The variable UROCE_DEVICES names the interfaces that become RDMA devices; else it is lo.
#![forbid(unsafe_code)]

use std::{env, error::Error, thread};
use verbs::{
    ReceiveRequest, Result, SendRequest,
    connection::{Connection, Listener},
};

fn serve(listener: &Listener) -> Result<()> {
    let connection = listener.accept()?;
    connection.post_receive(ReceiveRequest::new(connection.buffer(64)?))?;
    let mut done = 0;
    while done < 2 {
        for completion in connection.completions()? {
            done += 1;
            let bytes = completion.bytes;
            if let (true, Some(mut message)) = (bytes > 0, completion.into_buffer()) {
                let _rest = message.split_off(bytes);
                connection.post(SendRequest::send(message))?;
            }
        }
    }
    Ok(())
}

fn ask(address: &str) -> std::result::Result<(), Box<dyn Error>> {
    let connection = Connection::connect(address)?;
    connection.post_receive(ReceiveRequest::new(connection.buffer(64)?))?;
    let mut message = connection.buffer(5)?;
    message.copy_from_slice(b"hello");
    connection.post(SendRequest::send(message))?;
    loop {
        for completion in connection.completions()? {
            let completion = completion.success()?;
            let bytes = completion.bytes;
            if let (true, Some(answer)) = (bytes > 0, completion.into_buffer()) {
                println!("{}", String::from_utf8_lossy(&answer[..bytes]));
                return Ok(());
            }
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let interfaces = env::var("UROCE_DEVICES");
    verbs::use_uroce(interfaces.as_deref().unwrap_or("lo"));
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => serve(&Listener::bind(address)?)?,
        [address] => ask(address)?,
        _ => {
            let listener = Listener::bind("127.0.0.1:0")?;
            let address = listener.local_addr().ok_or("no address")?;
            let server = thread::spawn(move || serve(&listener));
            ask(&address.to_string())?;
            server.join().map_err(|_| "the server panicked")??;
        }
    }
    Ok(())
}
