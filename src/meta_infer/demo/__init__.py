"""Data of the `demo` command: a trained network and real samples it never saw.

digits.onnx      input `image` float32 [batch, 1, 8, 8] in 0..1, output `probabilities` float32 [batch, 10]
digits_test.npz  `images` float32 [n, 1, 8, 8] and `labels` int64 [n], held out from training

Both are made by tools/train_digits.py from scikit-learn's copy of the "Optical Recognition of Handwritten
Digits" data set (E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998, CC BY 4.0).
"""
