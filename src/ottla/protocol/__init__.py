"""What messages look like on the wire, at every version. The story in one page:

A message is declared once, as a class with its versions on the fields (schema.py; messages/ for what is sent, stored/
for what is only kept). Two machines read and write it: codec.py walks the declaration, slow and obvious, and says what
is wrong; compiled.py makes flat functions, one per message and version, and must agree. header.py puts the header
before the body; api.py lists which key is which message and which versions there are.

    bytes of a frame   →  header.decode_request    →  (RequestHeader, ProduceRequest)
    ProduceResponse    →  header.encode_response   →  list of buffers, records uncopied

Records stay what they are: a view into the frame. What is inside them is the business of ottla.records.
"""
