//! How much of a text stands in JSON as it is: everything but quotes, backslashes and control
//! characters. Reading and writing strings are the same question.

/// Words of eight plain bytes in a row, after which a text counts as long: blocks are looked at then.
/// In a text that is dense with escapes none ever are, for a block that is not plain is looked at twice.
pub(super) const WORDS_MIN: usize = 4;

/// Bytes of a block, which compilers look at with a few vectors.
const BLOCK_BYTES: usize = 64;

/// Bytes before the first that is not plain; all of them if there is none.
pub(super) fn plain_len(text: &[u8]) -> usize {
    let (mut at, mut words) = (0, 0);
    while let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let plain = plain_bytes(word);
        at += plain;
        if plain < word.len() {
            return at;
        }
        words += 1;
        if words == WORDS_MIN {
            at += plain_blocks(text.get(at..).unwrap_or_default());
        }
    }
    let last = text.get(at..).unwrap_or_default();
    at + last.iter().position(|byte| !is_plain(*byte)).unwrap_or(last.len())
}

/// Bytes of the words of eight at the beginning in which nothing stands out but escapes of two bytes, up to
/// what else there is, a word without any, or the last few bytes. Each word is looked at once.
#[inline(never)]
pub(super) fn escaped_len(text: &[u8]) -> usize {
    let mut len = 0;
    'words: while let Some(word) = text.get(len..).and_then(<[u8]>::first_chunk) {
        let mut special = special_bytes(word);
        if special == 0 {
            break;
        }
        while special != 0 {
            let at = special.trailing_zeros() as usize / 8;
            let [byte, next, ..] = (u64::from_le_bytes(*word) >> (8 * at)).to_le_bytes();
            if byte != b'\\' || at < 7 && !is_short(next) {
                return len + at;
            }
            if at == 7 {
                // Its other half is in the next word.
                len += 7;
                continue 'words;
            }
            special &= (!0 << (8 * at)) << 16;
        }
        len += 8;
    }
    len
}

/// Whether this byte after a backslash is all of its escape.
pub(super) const fn is_short(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

/// How many of eight bytes come before the first that is not plain.
#[inline]
pub(super) const fn plain_bytes(word: &[u8; 8]) -> usize {
    special_bytes(word).trailing_zeros() as usize / 8
}

/// The high bit of each of eight bytes that is not plain; the first byte is the lowest.
#[inline]
const fn special_bytes(word: &[u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOWS: u64 = 0x7f * ONES;
    let word = u64::from_le_bytes(*word);
    // No sum of two bytes below 0x80 carries into the next.
    let low = word & LOWS;
    let quote = (low ^ (ONES * b'"' as u64)) + LOWS;
    let backslash = (low ^ (ONES * b'\\' as u64)) + LOWS;
    let control = low + ONES * (0x80 - 0x20);
    !(quote & backslash & control | word) & !LOWS
}

/// Bytes of the plain blocks at the beginning.
#[inline(never)]
fn plain_blocks(text: &[u8]) -> usize {
    let (blocks, _) = text.as_chunks::<BLOCK_BYTES>();
    blocks.iter().take_while(|block| is_plain_block(block)).count() * BLOCK_BYTES
}

/// Without a branch for each byte.
fn is_plain_block(block: &[u8; BLOCK_BYTES]) -> bool {
    let marks = block.iter().map(|byte| u8::from(!is_plain(*byte)));
    marks.fold(0, |all, mark| all | mark) == 0
}

const fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_of_texts_of_every_length() {
        for len in 0..300 {
            let text = vec![b'a'; len];
            assert_eq!(plain_len(&text), len);
            for at in 0..len {
                for byte in [b'"', b'\\', 0, 0x1f, b'\n'] {
                    let mut text = text.clone();
                    text[at] = byte;
                    // What comes after it does not matter.
                    text[len - 1] = if at == len - 1 { byte } else { b'"' };
                    assert_eq!(plain_len(&text), at, "{byte} at {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn what_stands_out_is_marked_whatever_stands_before_it() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let word = [first, second, b'a', first, 0xff, second, b'"', b' '];
                let marks = special_bytes(&word).to_le_bytes();
                assert_eq!(marks, word.map(|byte| if is_plain(byte) { 0 } else { 0x80 }));
            }
        }
    }

    #[test]
    fn only_what_json_escapes_is_not_plain() {
        for byte in 0..=u8::MAX {
            let plain = byte >= 0x20 && byte != b'"' && byte != b'\\';
            for len in [1, 8, 40, 64, 100, 200] {
                let expected = if plain { len } else { 0 };
                assert_eq!(plain_len(&vec![byte; len]), expected, "{byte} × {len}");
            }
        }
    }
}
