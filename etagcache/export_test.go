package etagcache

import "runtime"

// Encoders lends compressors to the caches of many tests. It keeps as many as there are CPUs. It is safe for concurrent use.
type Encoders struct{ idle chan *encoder }

// NewEncoders returns Encoders that have no compressor yet.
func NewEncoders() *Encoders { return &Encoders{make(chan *encoder, runtime.GOMAXPROCS(0))} }

func (e *Encoders) get() *encoder {
	select {
	case idle := <-e.idle:
		return idle
	default:
		return &encoder{}
	}
}

func (e *Encoders) put(used *encoder) {
	select {
	case e.idle <- used:
	default:
	}
}

// Borrow makes a new cache borrow its compressors.
func (c *Cache) Borrow(e *Encoders) { c.encoders = e }
