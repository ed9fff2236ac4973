package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Codec packs and unpacks contents. It is safe for concurrent use and costs
// nothing until it is used.
type Codec struct {
	encoder func() *zstd.Encoder
	decoder func() *zstd.Decoder
}

// NewCodec returns a codec that has not been used yet.
func NewCodec() Codec {
	return Codec{
		encoder: sync.OnceValue(func() *zstd.Encoder {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithZeroFrames(true),
				zstd.WithLowerEncoderMem(true), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20))
			if err != nil {
				panic(err) // constant options
			}
			return e
		}),
		decoder: sync.OnceValue(func() *zstd.Decoder {
			d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderConcurrency(2))
			if err != nil {
				panic(err) // constant options
			}
			return d
		}),
	}
}

// Pack compresses a content.
func (c Codec) Pack(raw []byte) []byte {
	// Cloned, since the encoder's result has room to spare.
	return bytes.Clone(c.encoder().EncodeAll(raw, nil))
}

// Unpack returns the content. It never makes more than size bytes, whatever packed says.
func (c Codec) Unpack(packed []byte, size int64) ([]byte, error) {
	raw, err := c.decoder().DecodeAll(packed, make([]byte, 0, size))
	if err == nil && int64(len(raw)) != size {
		err = fmt.Errorf("%d bytes instead of %d", len(raw), size)
	}
	return raw, err
}

// verified unpacks what came from the database. A wrong base would end up in
// somebody's file by way of a merge, so its hash is looked at.
func (c Codec) verified(packed []byte, v Version) ([]byte, error) {
	const largest = 1 << 30 // no content is: the size is damaged
	if packed == nil {
		return nil, errors.New("its content is missing")
	}
	if v.Size < 0 || v.Size > largest {
		return nil, fmt.Errorf("its size is %d", v.Size)
	}
	raw, err := c.Unpack(packed, v.Size)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); v.Hash != hashPrefix+hex.EncodeToString(sum[:]) {
		return nil, errors.New("its bytes have another hash")
	}
	return raw, nil
}
