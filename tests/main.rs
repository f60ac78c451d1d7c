

mod wire;
